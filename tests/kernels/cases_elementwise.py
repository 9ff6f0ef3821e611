"""Adversarial calls of rectifiers, addition, multiplication and zeroing. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .cases import (
    EMPTY_PLANES,
    PLANES,
    SELECTIONS,
    Args,
    Array,
    Case,
    Rng,
    blank,
    blank_bytes,
    normal,
    pick,
    shape_label,
)

IMAGE = (2, 6, 4, 5)
LARGE = (16, 24, 16, 18)
CONSTANTS = np.array([0.5, -1.25, 3.0])
DRAWN: dict[str, Callable[[Rng, int], Array]] = {
    "normal": lambda rng, size: normal(rng, size),
    "positive": lambda rng, size: np.exp(4 * normal(rng, size)),
    "whole": lambda rng, size: rng.integers(-2, 3, size).astype(np.float32),
}
STEPS: dict[str, tuple[int, str, tuple[tuple[int, ...], ...]]] = {  # number of inputs, how drawn, steps
    "constant": (1, "normal", ((0, 1),)), "sum": (2, "normal", ((1, 0, 1),)), "difference": (2, "normal", ((2, 0, 1),)),
    "product": (2, "normal", ((3, 0, 1),)), "quotient": (2, "positive", ((4, 0, 1),)),
    "larger": (2, "whole", ((5, 0, 1),)), "smaller": (2, "whole", ((6, 0, 1),)),
    "power": (1, "positive", ((0, 0), (7, 0, 5))), "less": (2, "whole", ((8, 0, 1),)),
    "less_equal": (2, "whole", ((9, 0, 1),)), "equal": (2, "whole", ((10, 0, 1),)),
    "choice": (3, "whole", ((11, 0, 1, 2),)), "exp": (1, "normal", ((12, 0),)), "log": (1, "positive", ((13, 0),)),
    "sqrt": (1, "positive", ((14, 0),)), "sin": (1, "normal", ((15, 0),)), "cos": (1, "normal", ((16, 0),)),
    "magnitude": (1, "normal", ((17, 0),)),
    "several": (5, "normal", ((3, 0, 1), (0, 2), (1, 5, 6), (3, 7, 2), (1, 8, 3), (1, 9, 4))),
}  # fmt: skip
SLOPES = (0.25, -0.5, 0.0, 4.0)  # products with these are exact, and so are the results asked for


def cases() -> Iterator[Case]:
    shapes = PLANES + EMPTY_PLANES + [(2, 3, 31), (2, 2, 32), (1, 2, 33), (2, 1, 65)]
    for number, shape in enumerate(shapes):
        label = shape_label(*shape)
        yield Case("relu_forward", label, lambda rng, s=shape, k=number % 3 > 0: relu_forward(rng, s, k))
        slope = SLOPES[number % len(SLOPES)]
        yield Case(
            "leaky_relu_forward",
            label,
            lambda rng, s=shape, k=number % 3 > 0, a=slope: leaky_forward(rng, s, k, a),
        )
        yield Case("relu6_forward", label, lambda rng, s=shape, k=number % 3 > 0: relu6_forward(rng, s, k))
        yield Case("add", label, lambda rng, s=shape: add(rng, s))
        yield Case("mul", label, lambda rng, s=shape: add(rng, s))
        yield Case("add_channels", label, lambda rng, s=shape: add_channels(rng, s))
        yield Case("scale_places", label, lambda rng, s=shape: scale_places(rng, s))
        yield Case("place_dot", label, lambda rng, s=shape: place_dot(rng, s))
        yield Case("scale_channels", label, lambda rng, s=shape: scale_channels(rng, s))
        yield Case("channel_dot", label, lambda rng, s=shape: channel_dot(rng, s))
        yield Case("fill_zero", label, lambda rng, s=shape: {"x": normal(rng, *s)})
        for kind in ("all", SELECTIONS[1 + number % 5]):
            yield Case("relu_backward", f"{label}-{kind}", lambda rng, s=shape, k=kind: relu_backward(rng, s, k))
            yield Case(
                "leaky_relu_backward",
                f"{label}-{kind}",
                lambda rng, s=shape, k=kind, a=slope: leaky_backward(rng, s, k, a),
            )

    for number, (name, (inputs, drawn, steps)) in enumerate(STEPS.items()):
        for size in (0, 1, (7, 8, 9, 15, 16, 17, 127, 128, 129)[number % 9], 300):
            make = lambda rng, s=size, t=steps, n=inputs, d=drawn: evaluate(rng, s, t, n, d)  # noqa: E731
            yield Case("evaluate", f"{name}-{size}", make)
    several = STEPS["several"][2]
    yield Case("evaluate", "ordinary", lambda rng: evaluate(rng, 200, several, 5))
    yield Case("evaluate", "large", lambda rng: evaluate(rng, 70001, several, 5))
    for rows, values, length in ((1, 1, 1), (3, 5, 1), (3, 4, 7), (2, 1, 9), (5, 17, 16), (0, 3, 2), (2, 3, 0)):
        label = shape_label(rows, values, length)
        yield Case("expand", label, lambda rng, s=(rows, values, length): expand(rng, *s))
        for kind in range(3):
            yield Case("reduce", f"{label}-{kind}", lambda rng, s=(rows, values, length, kind): reduce(rng, *s))
    yield Case("expand", "ordinary", lambda rng: expand(rng, 6, 5, 4))
    yield Case("expand", "large", lambda rng: expand(rng, 64, 33, 65))
    yield Case("reduce", "ordinary", lambda rng: reduce(rng, 6, 5, 4, 0))
    yield Case("reduce", "large", lambda rng: reduce(rng, 64, 33, 65, 0))

    yield Case("relu_forward", "ordinary", lambda rng: relu_forward(rng, IMAGE, True))
    yield Case("relu_forward", "large", lambda rng: relu_forward(rng, LARGE, True))
    yield Case("relu_backward", "ordinary", lambda rng: relu_backward(rng, IMAGE, "odd"))
    yield Case("relu_backward", "large", lambda rng: relu_backward(rng, LARGE, "odd"))
    yield Case("leaky_relu_forward", "ordinary", lambda rng: leaky_forward(rng, IMAGE, True, 0.5))
    yield Case("leaky_relu_forward", "large", lambda rng: leaky_forward(rng, LARGE, True, 0.5))
    yield Case("leaky_relu_backward", "ordinary", lambda rng: leaky_backward(rng, IMAGE, "odd", 0.5))
    yield Case("leaky_relu_backward", "large", lambda rng: leaky_backward(rng, LARGE, "odd", 0.5))
    for label, shape in (("ordinary", IMAGE), ("large", LARGE)):
        yield Case("relu6_forward", label, lambda rng, s=shape: relu6_forward(rng, s, True))
        yield Case("add", label, lambda rng, s=shape: add(rng, s))
        yield Case("mul", label, lambda rng, s=shape: add(rng, s))
        yield Case("add_channels", label, lambda rng, s=shape: add_channels(rng, s))
        yield Case("scale_channels", label, lambda rng, s=shape: scale_channels(rng, s))
        yield Case("channel_dot", label, lambda rng, s=shape: channel_dot(rng, s))
        yield Case("scale_places", label, lambda rng, s=shape: scale_places(rng, s))
        yield Case("place_dot", label, lambda rng, s=shape: place_dot(rng, s))
    yield Case("fill_zero", "ordinary", lambda rng: {"x": normal(rng, 7)})
    yield Case("fill_zero", "large", lambda rng: {"x": normal(rng, *LARGE)})


def evaluate(rng: Rng, size: int, steps: tuple[tuple[int, ...], ...], count: int, values: str = "normal") -> Args:
    """Return the arguments of an expression of `count` inputs of so many values. A step has 0 for what is not read."""
    inputs = [DRAWN[values](rng, size) if k < count else None for k in range(5)]
    program = np.array([(*step, 0, 0, 0)[:4] for step in steps], np.int32)
    return {**dict(zip("abcde", inputs, strict=True)), "program": program, "constants": CONSTANTS, "y": blank(size)}


def expand(rng: Rng, rows: int, copies: int, length: int) -> Args:
    return {"x": normal(rng, rows, length), "y": blank(rows, copies, length)}


def reduce(rng: Rng, rows: int, values: int, length: int, kind: int) -> Args:
    scale = 0.25 if kind == 0 else 1.0
    return {"x": normal(rng, rows, values, length), "kind": kind, "scale": scale, "y": blank(rows, length)}


def add(rng: Rng, shape: tuple[int, ...]) -> Args:
    return {"a": normal(rng, *shape), "b": normal(rng, *shape), "y": blank(*shape)}


def add_channels(rng: Rng, shape: tuple[int, ...]) -> Args:
    return {"y": normal(rng, *shape), "offset": normal(rng, shape[1])}


def scale_channels(rng: Rng, shape: tuple[int, ...]) -> Args:
    return {"x": normal(rng, *shape), "scale": normal(rng, *shape[:2]), "y": blank(*shape)}


def scale_places(rng: Rng, shape: tuple[int, ...]) -> Args:
    scale = normal(rng, shape[0], *shape[2:])
    return {"x": normal(rng, *shape), "scale": scale, "y": blank(*shape)}


def place_dot(rng: Rng, shape: tuple[int, ...]) -> Args:
    return {"a": normal(rng, *shape), "b": normal(rng, *shape), "out": blank(shape[0], *shape[2:])}


def channel_dot(rng: Rng, shape: tuple[int, ...]) -> Args:
    return {"a": normal(rng, *shape), "b": normal(rng, *shape), "out": blank(*shape[:2])}


def relu6_forward(rng: Rng, shape: tuple[int, ...], keeps_bits: bool) -> Args:
    """Draw values below, inside and above the range, and on its borders."""
    args = relu_forward(rng, shape, keeps_bits)
    args["x"] *= 4
    args["x"][..., 1::7] = 6
    return args


def relu_forward(rng: Rng, shape: tuple[int, ...], keeps_bits: bool) -> Args:
    x = normal(rng, *shape)
    x[..., ::5] = 0
    bits = blank_bytes(*shape[:2], (int(np.prod(shape[2:])) + 7) // 8) if keeps_bits else None
    return {"x": x, "y": blank(*shape), "bits": bits}


def relu_backward(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
    is_on = rng.random((*shape[:2], int(np.prod(shape[2:])))) < 0.5
    bits = np.packbits(is_on, axis=2, bitorder="little")
    return {"dy": normal(rng, *shape), "bits": bits, "dx": blank(*shape), "channels": pick(kind, shape[1])}


def leaky_forward(rng: Rng, shape: tuple[int, ...], keeps_bits: bool, slope: float) -> Args:
    return _with_slope(relu_forward(rng, shape, keeps_bits), slope, "x", "negative_slope", "y", "bits")


def leaky_backward(rng: Rng, shape: tuple[int, ...], kind: str, slope: float) -> Args:
    return _with_slope(relu_backward(rng, shape, kind), slope, "dy", "bits", "negative_slope", "dx", "channels")


def _with_slope(args: Args, slope: float, *names: str) -> Args:
    """ReLU's arguments and the slope, in this order."""
    return {name: slope if name == "negative_slope" else args[name] for name in names}

"""Adversarial calls of rectifiers, addition, multiplication and zeroing. cases.py says what a case is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .cases import EMPTY_PLANES, PLANES, SELECTIONS, Args, Case, Rng, blank, blank_bytes, normal, pick, shape_label

IMAGE = (2, 6, 4, 5)
LARGE = (16, 24, 16, 18)
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

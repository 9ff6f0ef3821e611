"""Adversarial calls of every kernel operation: shapes at the edges of vector words, empty and full selections.

A case makes the arguments of one call, in the operation's order: float32 inputs, and outputs filled with a sentinel so
that a write outside the promise is seen. Shared with bench/. No backend and no comparison here. Convolutions are in
cases_conv.py, the loss and the operations on parameters in cases_update.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels import reference

Array = NDArray[Any]
Args = dict[str, Any]
Rng = np.random.Generator

SENTINEL = np.float32(-7.25e30)  # exact in float32, and no kernel's result
WIDTHS = (1, 3, 4, 5, 7, 8, 9, 15, 16, 17)  # 1, W - 1, W, W + 1 for words of W = 4, 8, 16 floats
SELECTIONS = ("all", "none", "one", "but_one", "every", "odd")


@dataclass(frozen=True)
class Case:
    """One call: `make` draws its arguments, name to value in the operation's order."""

    op: str
    label: str
    make: Callable[[Rng], Args]

    def args(self) -> Args:
        """The arguments, the same every time."""
        return self.make(np.random.default_rng(zlib.crc32(str(self).encode())))

    def __str__(self) -> str:
        return f"{self.op}-{self.label}"


def normal(rng: Rng, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def blank(*shape: int) -> Array:
    return np.full(shape, SENTINEL, np.float32)


def blank_bytes(*shape: int) -> Array:
    return np.full(shape, 0xA5, np.uint8)


def pick(kind: str, size: int) -> Array | None:
    """The ids of a selection by name: None for "all", explicit ids for the others."""
    ids = {
        "none": [],
        "one": [size // 2] if size else [],
        "but_one": [i for i in range(size) if i != size // 3],
        "every": range(size),
        "odd": range(1, size, 2),
    }
    return None if kind == "all" else np.array(list(ids[kind]), np.int32)


def count(ids: Array | None, size: int) -> int:
    return size if ids is None else len(ids)


def shape_label(*shape: int) -> str:
    return "x".join(map(str, shape))


# ---- batches --------------------------------------------------------------------------------------------------------


def batch_cases() -> Iterator[Case]:
    for width in (1, 7, 8, 9, 17):
        for count_ in (0, 1, 5):

            def rows(rng: Rng, bytes_: bool, width: int = width, count_: int = count_) -> Args:
                src = rng.integers(0, 256, (6, width)).astype(np.uint8) if bytes_ else normal(rng, 6, width)
                index = rng.integers(0, 6, count_).astype(np.int32)
                return {"src": src, "index": index, "scale": 1 / 255, "shift": -0.5, "out": blank(count_, width)}

            yield Case("gather_rows", f"u8-{count_}x{width}", lambda rng, rows=rows: rows(rng, True))
            yield Case("gather_rows", f"f32-{count_}x{width}", lambda rng, rows=rows: rows(rng, False))

    def labels(rng: Rng, count_: int) -> Args:
        src, index = rng.integers(0, 99, 11).astype(np.int32), rng.integers(0, 11, count_).astype(np.int32)
        return {"src": src, "index": index, "out": np.full(count_, -5, np.int32)}

    for count_ in (0, 1, 9):
        yield Case("gather_labels", str(count_), lambda rng, n=count_: labels(rng, n))

    def take(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
        channels = pick(kind, shape[1])
        out = blank(shape[0], count(channels, shape[1]), *shape[2:])
        return {"x": normal(rng, *shape), "channels": channels, "out": out}

    for shape in ((2, 5, 3, 3), (3, 17), (0, 4, 2, 2), (1, 1, 1, 1)):
        for kind in SELECTIONS:
            yield Case("take_channels", f"{shape_label(*shape)}-{kind}", lambda rng, s=shape, k=kind: take(rng, s, k))


# ---- linear ---------------------------------------------------------------------------------------------------------


def linear_cases() -> Iterator[Case]:
    shapes = [(2, n, 5) for n in (0, *WIDTHS)] + [(2, 5, n) for n in (0, *WIDTHS)] + [(n, 6, 5) for n in (0, *WIDTHS)]
    shapes += [(16, 120, 84), (5, 33, 31), (17, 450, 35), (1, 257, 129), (33, 7, 200)]
    shapes += [(64, 0, 70), (64, 1, 64), (65, 130, 66), (71, 257, 129), (130, 201, 65)]
    pairs = [("all", "all"), ("none", "odd"), ("odd", "none"), ("one", "but_one"), ("but_one", "one"), ("every", "odd")]
    for number, (batch, ins, outs) in enumerate(dict.fromkeys(shapes)):
        size, label = (batch, ins, outs), shape_label(batch, ins, outs)
        yield Case("linear_forward", label, lambda rng, s=size, b=number % 2: linear_forward(rng, *s, bool(b)))
        chosen = pairs if batch * ins * outs > 9000 else [pairs[0], pairs[1 + number % 5]]
        for pair in chosen:
            tag = f"{label}-{pair[0]}-{pair[1]}"
            yield Case("linear_grad_input", tag, lambda rng, s=size, p=pair: linear_grad_input(rng, *s, *p))
            yield Case("linear_grad_weight", tag, lambda rng, s=size, p=pair: linear_grad_weight(rng, *s, *p))
            compact = number % 2 == 1
            yield Case("linear_update", tag, lambda rng, s=size, p=pair, c=compact: linear_update(rng, *s, *p, c))


def linear_forward(rng: Rng, batch: int, ins: int, outs: int, has_bias: bool) -> Args:
    bias = normal(rng, outs) if has_bias else None
    return {"x": normal(rng, batch, ins), "weight": normal(rng, outs, ins), "bias": bias, "y": blank(batch, outs)}


def linear_grad_input(rng: Rng, batch: int, ins: int, outs: int, rows: str, cols: str) -> Args:
    args = {"dy": normal(rng, batch, outs), "weight": normal(rng, outs, ins), "dx": blank(batch, ins)}
    return {**args, "outs": pick(rows, outs), "ins": pick(cols, ins)}


def linear_grad_weight(rng: Rng, batch: int, ins: int, outs: int, rows: str, cols: str) -> Args:
    chosen = pick(rows, outs), pick(cols, ins)
    dw = blank(count(chosen[0], outs), count(chosen[1], ins))
    return {"x": normal(rng, batch, ins), "dy": normal(rng, batch, outs), "dw": dw, "outs": chosen[0], "ins": chosen[1]}


def linear_update(rng: Rng, batch: int, ins: int, outs: int, rows: str, cols: str, is_compact: bool) -> Args:
    """is_compact: x holds the chosen columns only."""
    chosen = pick(rows, outs), pick(cols, ins)
    x = normal(rng, batch, count(chosen[1], ins) if is_compact else ins)
    read = {"x": x, "dy": normal(rng, batch, outs), "w": normal(rng, outs, ins)}
    hyper = np.array([0.1, 0, 0.01, 0], np.float32)
    return {**read, "hyper": hyper, "outs": chosen[0], "ins": None if is_compact else chosen[1], "cols": chosen[1]}


PLANES = [(2, 3, 1), *((2, 3, n) for n in WIDTHS), (1, 17, 5), (3, 5, 7, 3), (17, 4, 33), (5, 9), (4, 1, 64)]
EMPTY_PLANES = [(0, 3, 4), (2, 0, 4), (2, 3, 0)]


def channel_sum_cases() -> Iterator[Case]:
    def make(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
        outs = pick(kind, shape[1])
        return {"dy": normal(rng, *shape), "out": blank(count(outs, shape[1])), "outs": outs}

    for number, shape in enumerate(PLANES + EMPTY_PLANES):
        for kind in ("all", SELECTIONS[1 + number % 5]):
            yield Case("channel_sum", f"{shape_label(*shape)}-{kind}", lambda rng, s=shape, k=kind: make(rng, s, k))


# ---- normalisation --------------------------------------------------------------------------------------------------


def norm_cases() -> Iterator[Case]:
    for number, shape in enumerate(PLANES + EMPTY_PLANES[1:2]):
        label = shape_label(*shape)
        spread = (1.0, 0.0, 100.0)[number % 3]  # ordinary, constant channels, a mean far from 0
        yield Case("batchnorm_forward", label, lambda rng, s=shape, a=spread: batchnorm_forward(rng, s, a))
        yield Case("batchnorm_eval", label, lambda rng, s=shape: batchnorm_eval(rng, s))
        for kinds in (("all", "all"), ("all", "odd"), ("but_one", "but_one"), ("odd", "none"), ("one", "one")):
            tag = f"{label}-{kinds[0]}-{kinds[1]}"
            yield Case("batchnorm_backward", tag, lambda rng, s=shape, k=kinds: batchnorm_backward(rng, s, *k))
    for number, shape in enumerate([(2, 4, 5), (1, 6, 3, 3), (3, 8, 16), (2, 3, 17), (5, 12), (0, 4, 3), (2, 1, 9)]):
        for groups in [g for g in (1, 2, 3, shape[1]) if shape[1] % g == 0]:
            label, keep = f"{shape_label(*shape)}-g{groups}", number % 2 == 0
            yield Case(
                "groupnorm_forward", label, lambda rng, s=shape, g=groups, k=keep: groupnorm_forward(rng, s, g, k)
            )
            for kind in ("all", "none", "one", "but_one"):
                tag = f"{label}-{kind}"
                yield Case(
                    "groupnorm_backward", tag, lambda rng, s=shape, g=groups, k=kind: groupnorm_backward(rng, s, g, k)
                )


def _affine(rng: Rng, channels: int) -> Args:
    return {"weight": normal(rng, channels), "bias": normal(rng, channels)}


def batchnorm_forward(rng: Rng, shape: tuple[int, ...], spread: float) -> Args:
    x = normal(rng, *shape) + np.float32(100 if spread == 100 else 0)
    x = np.full_like(x, 3) if spread == 0 else x
    channels = shape[1]
    running = {"running_mean": normal(rng, channels), "running_var": np.abs(normal(rng, channels))}
    written = {"y": blank(*shape), "xhat": blank(*shape), "inv_std": blank(channels)}
    return {"x": x, **_affine(rng, channels), **running, **written, "eps": 1e-5, "momentum": 0.1}


def batchnorm_eval(rng: Rng, shape: tuple[int, ...]) -> Args:
    running = {"running_mean": normal(rng, shape[1]), "running_var": np.abs(normal(rng, shape[1]))}
    return {"x": normal(rng, *shape), **_affine(rng, shape[1]), **running, "y": blank(*shape), "eps": 1e-3}


def batchnorm_backward(rng: Rng, shape: tuple[int, ...], needed: str, active: str) -> Args:
    channels, outs = pick(needed, shape[1]), pick(active, shape[1])
    rows = count(outs, shape[1])
    read = {"dy": normal(rng, *shape), "xhat": normal(rng, *shape), "weight": normal(rng, shape[1])}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    return {**read, "inv_std": np.abs(normal(rng, shape[1])), **written, "channels": channels, "outs": outs}


def groupnorm_forward(rng: Rng, shape: tuple[int, ...], groups: int, keeps_xhat: bool) -> Args:
    written = {"y": blank(*shape), "xhat": blank(*shape) if keeps_xhat else None, "inv_std": blank(shape[0], groups)}
    return {"x": normal(rng, *shape), **_affine(rng, shape[1]), **written, "groups": groups, "eps": 1e-5}


def groupnorm_backward(rng: Rng, shape: tuple[int, ...], groups: int, kind: str) -> Args:
    needed, members = pick(kind, groups), shape[1] // groups
    outs = None if needed is None else np.array([g * members for g in needed], np.int32)
    rows = count(outs, shape[1])
    read = {"dy": normal(rng, *shape), "xhat": normal(rng, *shape), "weight": normal(rng, shape[1])}
    written = {"dx": blank(*shape), "dweight": blank(rows), "dbias": blank(rows)}
    inv_std = np.abs(normal(rng, shape[0], groups))
    return {**read, "inv_std": inv_std, **written, "groups": groups, "groups_needed": needed, "outs": outs}


# ---- elementwise ----------------------------------------------------------------------------------------------------


def elementwise_cases() -> Iterator[Case]:
    shapes = PLANES + EMPTY_PLANES + [(2, 3, 31), (2, 2, 32), (1, 2, 33), (2, 1, 65)]
    for number, shape in enumerate(shapes):
        label = shape_label(*shape)
        yield Case("relu_forward", label, lambda rng, s=shape, k=number % 3 > 0: relu_forward(rng, s, k))
        yield Case("add", label, lambda rng, s=shape: {"a": normal(rng, *s), "b": normal(rng, *s), "y": blank(*s)})
        yield Case("fill_zero", label, lambda rng, s=shape: {"x": normal(rng, *s)})
        for kind in ("all", SELECTIONS[1 + number % 5]):
            yield Case("relu_backward", f"{label}-{kind}", lambda rng, s=shape, k=kind: relu_backward(rng, s, k))


def relu_forward(rng: Rng, shape: tuple[int, ...], keeps_bits: bool) -> Args:
    x = normal(rng, *shape)
    x[..., ::5] = 0
    bits = blank_bytes(*shape[:2], (int(np.prod(shape[2:])) + 7) // 8) if keeps_bits else None
    return {"x": x, "y": blank(*shape), "bits": bits}


def relu_backward(rng: Rng, shape: tuple[int, ...], kind: str) -> Args:
    is_on = rng.random((*shape[:2], int(np.prod(shape[2:])))) < 0.5
    bits = np.packbits(is_on, axis=2, bitorder="little")
    return {"dy": normal(rng, *shape), "bits": bits, "dx": blank(*shape), "channels": pick(kind, shape[1])}


# ---- pooling --------------------------------------------------------------------------------------------------------

POOLS: list[tuple[tuple[int, int, int, int], tuple[int, int], tuple[int, int], tuple[int, int]]] = [
    *(((2, 3, 4, width), (2, 2), (2, 2), (0, 0)) for width in (2, 3, 6, 7, 8, 9, 14, 16, 18, 30, 32, 34, 35)),
    *(((1, 2, 5, width), (3, 3), (2, 2), (1, 1)) for width in (1, 3, 8, 15, 17)),
    ((2, 3, 1, 1), (1, 1), (1, 1), (0, 0)),
    ((2, 3, 9, 9), (3, 3), (1, 1), (1, 1)),
    ((1, 5, 7, 8), (2, 3), (3, 1), (1, 0)),
    ((1, 5, 8, 7), (1, 2), (2, 5), (0, 1)),
    ((3, 1, 4, 4), (4, 4), (4, 4), (0, 0)),
    ((2, 2, 17, 15), (17, 15), (1, 1), (0, 0)),
    ((0, 3, 4, 4), (2, 2), (2, 2), (0, 0)),
    ((2, 7, 6, 10), (3, 2), (1, 2), (1, 1)),
]


def pool_cases() -> Iterator[Case]:
    for number, (shape, kernel, stride, padding) in enumerate(POOLS):
        window = {"kernel": kernel, "stride": stride, "padding": padding}
        label = f"{shape_label(*shape)}-k{shape_label(*kernel)}-s{shape_label(*stride)}-p{shape_label(*padding)}"
        yield Case(
            "maxpool_forward", label, lambda rng, s=shape, w=window, n=number: maxpool_forward(rng, s, w, n % 4 > 0)
        )
        for include in (True, False) if any(padding) else (True,):
            tag = f"{label}-{'all' if include else 'inside'}"
            yield Case("avgpool_forward", tag, lambda rng, s=shape, w=window, i=include: avgpool_forward(rng, s, w, i))
        for kind in ("all", SELECTIONS[1 + number % 5]):
            tag, include = f"{label}-{kind}", bool(number % 2)
            yield Case("maxpool_backward", tag, lambda rng, s=shape, w=window, k=kind: maxpool_backward(rng, s, w, k))
            make = lambda rng, s=shape, w=window, i=include, k=kind: avgpool_backward(rng, s, w, i, k)  # noqa: E731
            yield Case("avgpool_backward", tag, make)
    yield from large_window_cases()


def large_window_cases() -> Iterator[Case]:
    """Global average pooling of maps whose cells one byte cannot number."""
    shape, window = (2, 3, 17, 16), {"kernel": (17, 16), "stride": (1, 1), "padding": (0, 0)}
    yield Case("avgpool_forward", "global", lambda rng: avgpool_forward(rng, shape, window, True))
    yield Case("avgpool_backward", "global", lambda rng: avgpool_backward(rng, shape, window, True, "odd"))


def pooled(shape: tuple[int, ...], window: Args) -> tuple[int, ...]:
    """The shape of the pool's output."""
    axes = zip(shape[2:], window["kernel"], window["stride"], window["padding"], strict=True)
    return *shape[:2], *((n + 2 * p - k) // s + 1 for n, k, s, p in axes)


def maxpool_forward(rng: Rng, shape: tuple[int, ...], window: Args, keeps_codes: bool) -> Args:
    x = np.round(normal(rng, *shape) * 2)  # many equal cells: the first must win
    result = pooled(shape, window)
    return {"x": x, "y": blank(*result), "codes": blank_bytes(*result) if keeps_codes else None, **window}


def maxpool_backward(rng: Rng, shape: tuple[int, ...], window: Args, kind: str) -> Args:
    forward = maxpool_forward(rng, shape, window, True)
    reference.maxpool_forward(**forward)
    dy = normal(rng, *pooled(shape, window))
    return {"dy": dy, "codes": forward["codes"], "dx": blank(*shape), **window, "channels": pick(kind, shape[1])}


def avgpool_forward(rng: Rng, shape: tuple[int, ...], window: Args, include: bool) -> Args:
    return {"x": normal(rng, *shape), "y": blank(*pooled(shape, window)), **window, "count_include_pad": include}


def avgpool_backward(rng: Rng, shape: tuple[int, ...], window: Args, include: bool, kind: str) -> Args:
    gradients = {"dy": normal(rng, *pooled(shape, window)), "dx": blank(*shape)}
    return {**gradients, **window, "count_include_pad": include, "channels": pick(kind, shape[1])}

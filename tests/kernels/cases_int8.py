"""Calls of the family int8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .cases import WIDTHS, Args, Case, Rng, blank, normal

Pair = tuple[int, int]


class Layer(NamedTuple):
    """A convolution of int8 codes."""

    batch: int
    ins: int
    outs: int
    size: Pair
    kernel: Pair = (3, 3)
    stride: Pair = (1, 1)
    padding: Pair = (1, 1)
    dilation: Pair = (1, 1)

    @property
    def result(self) -> Pair:
        first, second = (
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        )
        return first, second

    def __str__(self) -> str:
        pairs = (f"{first}x{second}" for first, second in self[3:])
        return "-".join((f"{self.batch}x{self.ins}x{self.outs}", *pairs))


ONE_CELL = {"kernel": (1, 1), "padding": (0, 0)}
LAYERS = [
    *(Layer(2, 3, outs, (4, 5)) for outs in (*WIDTHS, 31, 33, 48, 49, 65)),
    *(Layer(2, ins, 5, (3, 4)) for ins in WIDTHS),
    *(Layer(1, 5, 6, (2, width), (1, 2), padding=(0, 0)) for width in (2, *WIDTHS[1:], 33, 50)),
    *(Layer(batch, 19, 18, (1, 1), **ONE_CELL) for batch in (1, 2, 5, 9, 47, 48, 49)),
    *(Layer(3, 6, 7, (9, 8), (2, 3), stride, padding) for stride in ((2, 1), (1, 2)) for padding in ((0, 2), (1, 0))),
    Layer(2, 4, 5, (11, 9), (3, 2), padding=(2, 1), dilation=(2, 3)),
    Layer(2, 3, 6, (16, 16), (5, 5), padding=(0, 0)),
    Layer(13, 8, 20, (2, 2)),
    *(Layer(30, 3, 9, size) for size in ((3, 4), (1, 3), (5, 2))),
    Layer(24, 6, 7, (4, 3), (5, 5), padding=(2, 2)),
    Layer(25, 4, 3, (5, 4), (3, 3), (2, 2), (2, 1)),
    Layer(26, 2, 17, (4, 4), (2, 3), (1, 2), (2, 2), (2, 1)),
    Layer(2, 1, 1, (1, 1)),
    Layer(0, 2, 3, (4, 4)),
    Layer(2, 0, 3, (4, 4)),
    Layer(2, 3, 0, (4, 4)),
]
LARGE = [Layer(5, 40, 70, (13, 11)), Layer(3, 260, 130, (6, 7)), Layer(70, 300, 90, (1, 1), **ONE_CELL)]


def cases() -> Iterator[Case]:
    for number, layer in enumerate(LAYERS):
        yield Case("conv2d_int8", str(layer), lambda rng, g=layer, b=number % 3 > 0: convolution(rng, g, b))
    yield Case("conv2d_int8", "zeros", lambda rng: filled(rng, 0.0))
    yield Case("conv2d_int8", "subnormal", lambda rng: filled(rng, 1e-40))
    yield Case("conv2d_int8", "small", lambda rng: filled(rng, 2.0**-99))
    yield Case("conv2d_int8", "halves", halves)
    yield Case("conv2d_int8", "least_codes", least_codes)
    yield Case("conv2d_int8", "ordinary", lambda rng: convolution(rng, Layer(2, 6, 5, (5, 6)), True))
    for layer in LARGE:
        yield Case("conv2d_int8", f"large-{layer}", lambda rng, g=layer: convolution(rng, g, True))


def not_finite() -> Iterator[Case]:
    """Yield calls with an image whose results are NaN."""
    for value in (np.inf, -np.inf, np.nan):
        yield Case("conv2d_int8", f"with_{value}", lambda rng, v=value: with_one(rng, v))


def convolution(rng: Rng, layer: Layer, has_bias: bool) -> Args:
    codes = rng.integers(0, 256, (layer.outs, *layer.kernel, layer.ins), np.uint8)
    return {
        "x": normal(rng, layer.batch, layer.ins, *layer.size),
        "codes": codes,
        "scale": normal(rng, layer.outs) / 64,
        "bias": normal(rng, layer.outs) if has_bias else None,
        "y": blank(layer.batch, layer.outs, *layer.result),
        "stride": layer.stride,
        "padding": layer.padding,
        "dilation": layer.dilation,
    }


def filled(rng: Rng, value: float) -> Args:
    """Return a call in which the second image has this value everywhere."""
    args = convolution(rng, Layer(3, 5, 17, (4, 5)), True)
    args["x"][1] = value
    return args


def with_one(rng: Rng, value: float) -> Args:
    """Return a call in which one value of the second image is not finite. Other images stay as they are."""
    args = convolution(rng, Layer(3, 5, 17, (4, 5)), True)
    args["x"][1, 2, 3, 1] = value
    return args


def halves(rng: Rng) -> Args:
    """Return a call whose values lie between two codes, which are rounded to the even code."""
    args = convolution(rng, Layer(2, 6, 9, (4, 4), (1, 1), padding=(0, 0)), False)
    args["x"][...] = rng.integers(-127, 127, args["x"].shape) + 0.5
    args["x"][:, 0, 0, 0] = 127
    return args


def least_codes(rng: Rng) -> Args:
    """Return a call whose products are as large as they may be, of both signs."""
    args = convolution(rng, Layer(2, 64, 33, (4, 4)), False)
    args["codes"][::2], args["codes"][1::2] = 0x80, 0x7F
    args["x"][0], args["x"][1] = -3, 3
    return args

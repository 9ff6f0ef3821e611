"""Convolutions of int8 codes in plain numpy."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array, Pair
from ..window import Window
from .taps import pad, taps

MOST_CODE = np.float32(127)
SMALLEST = np.float32(2.0**-100)  # an image whose largest magnitude is below it has codes of 0


def conv2d_int8(
    x: Array,
    codes: Array,
    scale: Array,
    bias: Array | None,
    y: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
) -> None:
    """Compute y = conv(x, weight) + bias of int8 codes. All steps are in float32, whatever the type of the arrays.

    The weight is codes [O, Y, X, I] times scale [O]. An image of x is rounded to codes, to nearest even, times its
    largest magnitude over 127. A result is the sum of products of codes times the product of both scales.
    """
    window = Window.of(codes.shape[1:3], stride, padding, dilation, x.shape[2:])
    found, values = rounded(x.astype(np.float32))
    weight, total = codes.view(np.int8).astype(np.float64), np.zeros((*y.shape[:2], math.prod(y.shape[2:])))
    for i, j, seen in taps(pad(found, window), window):
        total += weight[:, i, j] @ seen.reshape(*seen.shape[:2], total.shape[2])
    scales = values[:, None] * scale.astype(np.float32)
    result = total.astype(np.float32) * scales[..., None]
    if bias is not None:
        result += bias.astype(np.float32)[:, None]
    y[...] = result.reshape(y.shape)


def rounded(x: Array) -> tuple[Array, Array]:
    """Return the codes of float32 images as float64, and what the code 1 of each image stands for."""
    largest = np.abs(x).max(axis=(1, 2, 3), initial=0)
    is_finite = np.isfinite(largest)
    is_usual = is_finite & (largest >= SMALLEST)
    inverse = np.divide(MOST_CODE, largest, out=np.zeros_like(largest), where=is_usual)
    with np.errstate(invalid="ignore"):
        codes = np.where(is_finite[:, None, None, None], np.rint(x * inverse[:, None, None, None]), 0)
    values = np.where(is_usual, largest / MOST_CODE, np.float32(0))
    return codes.astype(np.float64), np.where(is_finite, values, np.float32(np.nan)).astype(np.float32)

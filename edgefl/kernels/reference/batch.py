"""Batches in plain numpy: rows picked by index, chosen channels of a layer's input, and images side by side."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, all_or


def gather_rows(src: Array, index: Array, scale: float, shift: float, out: Array) -> None:
    """Compute out[b] = src[index[b]] * scale + shift. src is uint8 or floating, and index may be in any order."""
    out[:] = src[index].astype(out.dtype) * out.dtype.type(scale) + out.dtype.type(shift)


def gather_labels(src: Array, index: Array, out: Array) -> None:
    """Set out[b] to src[index[b]]."""
    out[:] = src[index]


def take_channels(x: Array, channels: Index, out: Array) -> None:
    """Set out[b, j] to x[b, channels[j]]."""
    out[:] = x[:, all_or(channels, x.shape[1])]


def to_lanes(x: Array, lanes: int, y: Array) -> None:
    """Lay `lanes` images of x side by side: y holds [B / lanes, *, lanes], in an array of x's shape."""
    apart = x.reshape(len(x) // lanes, lanes, int(np.prod(x.shape[1:])))
    y[...] = apart.transpose(0, 2, 1).reshape(y.shape)


def from_lanes(y: Array, lanes: int, x: Array) -> None:
    """Undo `to_lanes`: lay the images of y one after another in x."""
    together = y.reshape(len(y) // lanes, int(np.prod(y.shape[1:])), lanes)
    x[...] = together.transpose(0, 2, 1).reshape(x.shape)

"""Batches in plain numpy: rows picked by index, and channels kept of a layer's input."""

from __future__ import annotations

from ..arrays import Array, Index, all_or


def gather_rows(src: Array, index: Array, scale: float, shift: float, out: Array) -> None:
    """out[b] = src[index[b]] * scale + shift. src uint8 or floating; index in any order."""
    out[:] = src[index].astype(out.dtype) * out.dtype.type(scale) + out.dtype.type(shift)


def gather_labels(src: Array, index: Array, out: Array) -> None:
    """out[b] = src[index[b]]."""
    out[:] = src[index]


def take_channels(x: Array, channels: Index, out: Array) -> None:
    """out[b, j] = x[b, channels[j]]."""
    out[:] = x[:, all_or(channels, x.shape[1])]

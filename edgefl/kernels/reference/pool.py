"""Pooling in plain numpy, as sums or maxima over the taps of a window. It is not fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arrays import Array, Index, Pair
from ..window import Window
from .taps import inside, pad, taps


def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Set y to the largest cell (i, j) of each window, and codes to i * kernel_w + j.

    The first of equal cells wins, and a NaN always wins. Padding never wins: a window of -inf yields its first real
    cell, as in PyTorch.
    """
    window = Window.of(kernel, stride, padding, (1, 1), x.shape[2:]).fitting(y.shape[2:])
    best, winner = np.full(y.shape, -np.inf, y.dtype), np.zeros(y.shape, np.uint8)
    real, unseen = pad(np.ones_like(x, bool), window, False), np.ones(y.shape, bool)
    for (i, j, seen), (_, _, exists) in zip(taps(pad(x, window), window), taps(real, window), strict=True):
        better = exists & (unseen | (seen > best) | np.isnan(seen))
        best, winner = np.where(better, seen, best), np.where(better, np.uint8(i * kernel[1] + j), winner)
        unseen &= ~exists
    y[:] = best
    if codes is not None:
        codes[...] = winner.reshape(codes.shape)


def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Index
) -> None:
    """Set dx[:, channels] to dy at the winning cells, summed where windows overlap. Other channels of dx are left
    alone.
    """
    window = Window.of(kernel, stride, padding, (1, 1), dx.shape[2:]).fitting(dy.shape[2:])
    chosen = slice(None) if channels is None else channels
    sent, winner = dy[:, chosen], codes.reshape(dy.shape)[:, chosen]
    padded = pad(np.zeros_like(dx[:, chosen]), window)
    for i, j, target in taps(padded, window):
        target += np.where(winner == i * kernel[1] + j, sent, 0)
    dx[:, chosen] = inside(padded, window)


def maxpool_lanes_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Compute maxpool_forward of images side by side, [B, C, H, W, L]."""
    found = _apart(y)
    won = np.empty(found.shape, np.uint8)
    maxpool_forward(_apart(x), found, won, kernel, stride, padding)
    y[:] = _together(found, y.shape)
    if codes is not None:
        codes[...] = _together(won, y.shape).reshape(codes.shape)


def maxpool_lanes_backward(dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """Compute maxpool_backward of images side by side, [B, C, H, W, L]."""
    found = _apart(dx)
    maxpool_backward(_apart(dy), _apart(codes.reshape(dy.shape)), found, kernel, stride, padding, None)
    dx[:] = _together(found, dx.shape)


def _apart(x: Array) -> Array:
    """Turn x [B, C, H, W, L] into [B L, C, H, W]."""
    batch, channels, height, width, lanes = x.shape
    return x.transpose(0, 4, 1, 2, 3).reshape(batch * lanes, channels, height, width)


def _together(x: Array, shape: tuple[int, ...]) -> Array:
    """Undo `_apart`: turn x [B L, C, H, W] into `shape`, which is [B, C, H, W, L]."""
    batch, *plane, lanes = shape
    return x.reshape(batch, lanes, *plane).transpose(0, 2, 3, 4, 1)


def pool_cells(window: Window, count_include_pad: bool, dtype: np.dtype[Any]) -> Array:
    """Return the number of cells that each average is over, as [1, 1, out_h, out_w]."""
    real = pad(np.ones((1, 1, *window.source), dtype), window, float(count_include_pad), 0.0)
    return np.sum([seen for _, _, seen in taps(real, window)], axis=0)


def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    """Set y to the mean of each window, over all its cells or, unless count_include_pad, over the cells inside the
    input.
    """
    window = Window.of(kernel, stride, padding, (1, 1), x.shape[2:]).fitting(y.shape[2:])
    total = np.zeros_like(y)
    for _, _, seen in taps(pad(x, window), window):
        total += seen
    y[:] = total / pool_cells(window, count_include_pad, y.dtype)


def avgpool_backward(
    dy: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, channels: Index
) -> None:
    """Set dx[:, channels] to each dy, spread evenly over its window. Other channels of dx are left alone."""
    window = Window.of(kernel, stride, padding, (1, 1), dx.shape[2:]).fitting(dy.shape[2:])
    chosen = slice(None) if channels is None else channels
    share = dy[:, chosen] / pool_cells(window, count_include_pad, dy.dtype)
    padded = pad(np.zeros_like(dx[:, chosen]), window)
    for _, _, target in taps(padded, window):
        target += share
    dx[:, chosen] = inside(padded, window)


def adaptive_avgpool_forward(x: Array, y: Array) -> None:
    """Set y to the means of as many windows as it has cells: from i H / M rounded down to (i + 1) H / M rounded up.

    H is the size of x, and M is the size of y along an axis.
    """
    for i, j, seen in _adaptive(x, y):
        y[:, :, i, j] = seen.mean(axis=(2, 3))


def adaptive_avgpool_backward(dy: Array, dx: Array, channels: Index) -> None:
    """Set dx[:, channels] to each dy, spread evenly over its window. Other channels of dx are left alone."""
    chosen = slice(None) if channels is None else channels
    spread = np.zeros_like(dx)
    for i, j, target in _adaptive(spread, dy):
        target += (dy[:, :, i, j] / (target.shape[2] * target.shape[3]))[:, :, None, None]
    dx[:, chosen] = spread[:, chosen]


def _adaptive(source: Array, result: Array) -> Iterator[tuple[int, int, Array]]:
    """Yield (i, j, view) for each window."""
    (height, width), (rows, cols) = source.shape[2:], result.shape[2:]
    for i in range(rows):
        for j in range(cols):
            top, left = i * height // rows, j * width // cols
            bottom, right = -(-(i + 1) * height // rows), -(-(j + 1) * width // cols)
            yield i, j, source[:, :, top:bottom, left:right]

"""Convolution and pooling in plain numpy: the definition that faster kernels are compared with. Not fast.

Everything here is a sum over the taps of a window. A tap (i, j) sees the padded input through one strided view of the
output's extents, so that forward, input gradient and weight gradient are one line each: read, scatter, correlate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import contracts_conv as contracts
from .checks import Array, Ids, Pair, Window


def _padded(x: Array, window: Window, fill: float = 0.0) -> Array:
    pad_h, pad_w = window.padding
    return np.pad(x, ((0, 0), (0, 0), (pad_h, pad_h), (pad_w, pad_w)), constant_values=fill)


def _inside(padded: Array, window: Window) -> Array:
    (pad_h, pad_w), (height, width) = window.padding, window.source
    return padded[:, :, pad_h : pad_h + height, pad_w : pad_w + width]


def _taps(padded: Array, window: Window) -> Iterator[tuple[int, int, Array]]:
    """(i, j, view [B, C, out_h, out_w]) for each cell of the window; writing to a view writes to `padded`."""
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            top, left = i * window.dilation[0], j * window.dilation[1]
            bottom = top + window.stride[0] * (window.result[0] - 1) + 1
            right = left + window.stride[1] * (window.result[1] - 1) + 1
            yield i, j, padded[:, :, top : bottom : window.stride[0], left : right : window.stride[1]]


def _grouped(x: Array, groups: int) -> Array:
    """[B, C, h, w] as [B, groups, C / groups, h w]."""
    batch, channels, height, width = x.shape
    return x.reshape(batch, groups, channels // groups, height * width)


def conv2d_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None:
    """y[b, o] = bias[o] + sum of weight[o, i, tap] x[b, i] at the tap, over the inputs i of o's group and the taps."""
    window = contracts.conv2d_forward(x, weight, bias, y, stride, padding, dilation, groups)
    taps_of = weight.reshape(groups, -1, *weight.shape[1:])
    total = np.zeros_like(_grouped(y, groups))
    for i, j, seen in _taps(_padded(x, window), window):
        total += taps_of[..., i, j] @ _grouped(seen, groups)
    y[:] = total.reshape(y.shape)
    if bias is not None:
        y += bias[:, None, None]


def conv2d_grad_input(
    dy: Array, weight: Array, dx: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int, outs: Ids, ins: Ids
) -> None:
    """dx[:, ins] = transposed convolution of dy[:, outs] with weight[outs]; other channels of dx are left alone."""
    window = contracts.conv2d_grad_input(dy, weight, dx, stride, padding, dilation, groups, outs, ins)
    sent, taps_of = _only(dy, 1, outs), _only(weight, 0, outs).reshape(groups, -1, *weight.shape[1:])
    padded = _padded(np.zeros_like(dx), window)
    for i, j, target in _taps(padded, window):
        target += (taps_of[..., i, j].swapaxes(1, 2) @ _grouped(sent, groups)).reshape(target.shape)
    chosen = slice(None) if ins is None else ins
    dx[:, chosen] = _inside(padded, window)[:, chosen]


def _only(array: Array, axis: int, ids: Ids) -> Array:
    """A copy where everything outside `ids` on the axis is 0."""
    if ids is None:
        return array
    kept = np.zeros_like(array)
    where = (slice(None),) * axis + (ids,)
    kept[where] = array[where]
    return kept


def conv2d_grad_weight(
    x: Array,
    dy: Array,
    dw: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Ids,
    ins: Ids,
    in_channels: int,
) -> None:
    """dw[j, i, tap] = sum over batch and pixels of dy[:, outs[j]] and x[:, ins[i]] at the tap; dw is compact.

    x holds the layer's in_channels planes, or fewer when the caller saved only some; `ins` counts among those it holds.
    """
    window = contracts.conv2d_grad_weight(x, dy, dw, stride, padding, dilation, groups, outs, ins, in_channels)
    rows = np.arange(dy.shape[1]) if outs is None else outs
    sent = _grouped(dy[:, rows], 1)[:, 0]
    if groups == 1:
        x = x if ins is None else x[:, ins]
        for i, j, seen in _taps(_padded(x, window), window):
            dw[:, :, i, j] = np.tensordot(sent, _grouped(seen, 1)[:, 0], axes=((0, 2), (0, 2)))
        return
    planes = planes_read(rows, dy.shape[1] // groups, in_channels // groups, x.shape[1] == in_channels)
    for i, j, seen in _taps(_padded(x, window), window):
        read = seen[:, planes].reshape(len(x), *planes.shape, sent.shape[2])
        dw[:, :, i, j] = np.einsum("bjp,bjip->ji", sent, read)


def planes_read(rows: Array, outs_per_group: int, ins_per_group: int, holds_all: bool) -> Array:
    """[|rows|, ins_per_group]: the planes of x that each output channel reads."""
    group = rows // outs_per_group
    first = group if holds_all else np.searchsorted(np.unique(group), group)
    return first[:, None] * ins_per_group + np.arange(ins_per_group)


# ---- pooling --------------------------------------------------------------------------------------------------------


def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """y = the largest cell of each window; codes = its i * kernel_w + j. The first of equals wins, a NaN always wins.

    Padding is never a winner: a window of -inf yields its first real cell (PyTorch).
    """
    window = contracts.maxpool_forward(x, y, codes, kernel, stride, padding)
    best, winner = np.full(y.shape, -np.inf, y.dtype), np.zeros(y.shape, np.uint8)
    real, unseen = _padded(np.ones_like(x, bool), window, False), np.ones(y.shape, bool)
    for (i, j, seen), (_, _, exists) in zip(_taps(_padded(x, window), window), _taps(real, window), strict=True):
        better = exists & (unseen | (seen > best) | np.isnan(seen))
        best, winner = np.where(better, seen, best), np.where(better, np.uint8(i * kernel[1] + j), winner)
        unseen &= ~exists
    y[:] = best
    if codes is not None:
        codes[...] = winner.reshape(codes.shape)


def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Ids
) -> None:
    """dx[:, channels] = dy scattered to the winning cells, summed where windows overlap; the rest is left alone."""
    window = contracts.maxpool_backward(dy, codes, dx, kernel, stride, padding, channels)
    chosen = slice(None) if channels is None else channels
    sent, winner = dy[:, chosen], codes.reshape(dy.shape)[:, chosen]
    padded = _padded(np.zeros_like(dx[:, chosen]), window)
    for i, j, target in _taps(padded, window):
        target += np.where(winner == i * kernel[1] + j, sent, 0)
    dx[:, chosen] = _inside(padded, window)


def pool_cells(window: Window, count_include_pad: bool, dtype: np.dtype[Any]) -> Array:
    """[1, 1, out_h, out_w]: the number of cells that each average is over."""
    real = _padded(np.ones((1, 1, *window.source), dtype), window, float(count_include_pad))
    return np.sum([seen for _, _, seen in _taps(real, window)], axis=0)


def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    """y = the mean of each window, over all its cells or (count_include_pad false) over those inside the input."""
    window = contracts.avgpool_forward(x, y, kernel, stride, padding)
    total = np.zeros_like(y)
    for _, _, seen in _taps(_padded(x, window), window):
        total += seen
    y[:] = total / pool_cells(window, count_include_pad, y.dtype)


def avgpool_backward(
    dy: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, channels: Ids
) -> None:
    """dx[:, channels] = each dy spread evenly over its window; other channels of dx are left alone."""
    window = contracts.avgpool_backward(dy, dx, kernel, stride, padding, channels)
    chosen = slice(None) if channels is None else channels
    share = dy[:, chosen] / pool_cells(window, count_include_pad, dy.dtype)
    padded = _padded(np.zeros_like(dx[:, chosen]), window)
    for _, _, target in _taps(padded, window):
        target += share
    dx[:, chosen] = _inside(padded, window)

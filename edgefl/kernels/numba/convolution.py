"""Convolution of the numba backend: gather the cells that the taps read, then add up whole rows.

`rows` and `cols` are [kernel, 2]: for each row or column of the kernel, the outputs [first, last) whose tap lies inside
the input. `geometry` is stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array, Index, Pair
from ..checked_functions import Call, prepares
from ..reference.convolution import planes_read
from ..window import Window
from .compiled import compiled, spelt_out
from .taps import ROW, gather_taps, scatter_taps, walk


@prepares
def conv2d_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Call:
    window = Window.of(weight.shape[2:], stride, padding, dilation, x.shape[2:])
    taps_of = weight.reshape(len(weight), math.prod(weight.shape[1:]))
    offsets = np.zeros(len(weight), x.dtype) if bias is None else bias
    return _conv2d_forward, (x, taps_of, offsets, y, *walk(window), groups)


@compiled
def _conv2d_forward(
    x: Array, weight: Array, bias: Array, y: Array, rows: Array, cols: Array, geometry: Array, groups: int
) -> None:
    """Compute y [B, O, h, w] = conv(x, weight [O, k]) + bias."""
    outs, inputs, (height, width) = len(weight) // groups, x.shape[1] // groups, y.shape[2:]
    pixels = height * width
    samples = max(min(ROW // pixels, len(x)), 1)
    taps = np.zeros((weight.shape[1], samples, height, width), x.dtype)
    matrix, every = taps.reshape(len(taps), samples * pixels), np.arange(len(taps))
    for start in range(0, len(x), samples):
        some = x[start : start + samples]
        for group in range(groups):
            gather_taps(some, np.arange(group * inputs, (group + 1) * inputs), rows, cols, geometry, taps)
            for o in range(group * outs, (group + 1) * outs):
                total = np.full(len(some) * pixels, bias[o])
                add_product(total, weight[o], matrix, every, 0)
                for b in range(len(some)):
                    y[start + b, o] = total[b * pixels : (b + 1) * pixels].reshape(height, width)


@prepares
def conv2d_grad_input(
    dy: Array,
    weight: Array,
    dx: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index,
    ins: Index,
) -> Call:
    window = Window.of(weight.shape[2:], stride, padding, dilation, dx.shape[2:])
    taps_of = weight.reshape(*weight.shape[:2], math.prod(window.kernel))
    chosen = spelt_out(outs, len(weight)), spelt_out(ins, dx.shape[1])
    return _conv2d_grad_input, (dy, taps_of, dx, *walk(window), *chosen)


@compiled
def _conv2d_grad_input(
    dy: Array,
    weight: Array,
    dx: Array,
    rows: Array,
    cols: Array,
    geometry: Array,
    outs: Array,
    ins: Array,
) -> None:
    """Set dx[:, ins] to the transposed convolution of dy[:, outs] with weight [O, I / groups, kh kw]."""
    (batch, channels, height, width), (_, per_group, cells) = dy.shape, weight.shape
    pixels = height * width
    outs_per_group, samples = channels // (dx.shape[1] // per_group), max(min(ROW // pixels, batch), 1)
    sent = np.empty((channels, batch, pixels), dy.dtype)  # a channel's samples in one row
    for o in outs:
        for b in range(batch):
            sent[o, b] = dy[b, o].reshape(-1)
    matrix, factors = sent.reshape(channels, batch * pixels), np.empty((cells, len(outs)), dy.dtype)
    taps = np.empty((cells, samples, height, width), dy.dtype)
    for i in ins:
        first = np.searchsorted(outs, i // per_group * outs_per_group)
        last = np.searchsorted(outs, (i // per_group + 1) * outs_per_group)
        chosen = outs[first:last]
        for k in range(len(chosen)):
            factors[:, k] = weight[chosen[k], i % per_group]
        for start in range(0, batch, samples):
            some = dx[start : start + samples]
            taps[:] = 0
            for t in range(cells):
                add_product(taps[t].reshape(-1)[: len(some) * pixels], factors[t], matrix, chosen, start * pixels)
            some[:, i] = 0
            scatter_taps(taps, rows, cols, geometry, some, i)


@prepares
def conv2d_grad_weight(
    x: Array,
    dy: Array,
    dw: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index,
    ins: Index,
    in_channels: int,
) -> Call:
    window = Window.of(dw.shape[2:], stride, padding, dilation, x.shape[2:])
    rows, columns = spelt_out(outs, dy.shape[1]), spelt_out(ins, x.shape[1])
    taps_of = dw.reshape(len(dw), math.prod(dw.shape[1:]))
    return _conv2d_grad_weight, (x, dy, taps_of, *walk(window), rows, columns, in_channels, groups)


def _conv2d_grad_weight(
    x: Array,
    dy: Array,
    taps_of: Array,
    row_spans: Array,
    col_spans: Array,
    geometry: Array,
    rows: Array,
    columns: Array,
    in_channels: int,
    groups: int,
) -> None:
    if groups == 1:
        planes = np.tile(columns, (len(taps_of), 1))
    else:
        planes = planes_read(rows, dy.shape[1] // groups, in_channels // groups, x.shape[1] == in_channels)
    _grad_weight(x, dy, taps_of, row_spans, col_spans, geometry, rows, planes.astype(np.int64))


@compiled
def _grad_weight(
    x: Array, dy: Array, dw: Array, rows: Array, cols: Array, geometry: Array, outs: Array, planes: Array
) -> None:
    """Compute dw [|outs|, k] from dy[:, outs[j]] and x[:, planes[j]]. Consecutive rows of `planes` may be equal."""
    height, width = dy.shape[2:]
    taps = np.zeros((1, height, width, dw.shape[1]), x.dtype)  # taps are the last axis, so that rows of dw are added
    matrix, every = taps.reshape(height * width, dw.shape[1]), np.arange(height * width)
    dw[:] = 0
    for b in range(len(x)):
        for j in range(len(outs)):
            if j == 0 or (planes[j] != planes[j - 1]).any():
                gather_taps(x[b : b + 1], planes[j], rows, cols, geometry, taps.transpose(3, 0, 1, 2))
            add_product(dw[j], dy[b, outs[j]].reshape(-1), matrix, every, 0)


@compiled
def add_product(total: Array, factors: Array, matrix: Array, ids: Array, start: int) -> None:
    """Add the sum over k of factors[k] matrix[ids[k], start:] to total [n]. Four rows share one load of `total`."""
    whole = len(ids) // 4 * 4
    for k in range(0, whole, 4):
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        m0, m1 = matrix[ids[k], start:], matrix[ids[k + 1], start:]
        m2, m3 = matrix[ids[k + 2], start:], matrix[ids[k + 3], start:]
        for p in range(len(total)):
            total[p] += (f0 * m0[p] + f1 * m1[p]) + (f2 * m2[p] + f3 * m3[p])
    for k in range(whole, len(ids)):
        factor, row = factors[k], matrix[ids[k], start:]
        for p in range(len(total)):
            total[p] += factor * row[p]

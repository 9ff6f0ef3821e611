"""Convolution for the numba backend: gather the cells that the taps read, then sums of whole rows.

Compiled at first use and cached on disk; NUMBA_DISABLE_JIT=1 runs the loops as plain Python under a debugger. The
caller checks the arguments. Without fast-math LLVM vectorises only loops whose iterations are independent, so inner
loops run along contiguous rows, with indices that cannot be negative (from 0, or unsigned): others cost a test each.
`rows` and `cols` are [kernel, 2]: the outputs [first, last) whose tap lies inside the input, per kernel row and column.
geometry = stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w.
"""

from __future__ import annotations

import numba
import numpy as np

from .checks import Array

compiled = numba.njit(cache=True, nogil=True, fastmath=False)


@compiled
def add_product(total: Array, factors: Array, matrix: Array, ids: Array) -> None:
    """total [n] += sum over k of factors[k] matrix[ids[k]]; four rows at a time, to load and store `total` once."""
    whole = len(ids) // 4 * 4
    for k in range(0, whole, 4):
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        m0, m1, m2, m3 = matrix[ids[k]], matrix[ids[k + 1]], matrix[ids[k + 2]], matrix[ids[k + 3]]
        for p in range(len(total)):
            total[p] += (f0 * m0[p] + f1 * m1[p]) + (f2 * m2[p] + f3 * m3[p])
    for k in range(whole, len(ids)):
        factor, row = factors[k], matrix[ids[k]]
        for p in range(len(total)):
            total[p] += factor * row[p]


@compiled
def gather_taps(x: Array, planes: Array, rows: Array, cols: Array, geometry: Array, taps: Array) -> None:
    """taps[k, r, c] = the cell of x [C, h, w] that tap k = (i, kh, kw) of output (r, c) reads in plane planes[i].

    A tap outside the input is not written: the caller has cleared `taps`.
    """
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    k = 0
    for i in planes:
        for kh in range(len(rows)):
            for kw in range(len(cols)):
                first, count = np.uintp(cols[kw, 0]), np.uintp(cols[kw, 1] - cols[kw, 0])
                start, step = np.uintp(cols[kw, 0] * stride_w + kw * dilation_w - padding_w), np.uintp(stride_w)
                for r in range(rows[kh, 0], rows[kh, 1]):
                    row = r * stride_h + kh * dilation_h - padding_h
                    if stride_w == 1:
                        for c in range(count):
                            taps[k, r, first + c] = x[i, row, start + c]
                    else:
                        for c in range(count):
                            taps[k, r, first + c] = x[i, row, start + c * step]
                k += 1


@compiled
def scatter_taps(taps: Array, rows: Array, cols: Array, geometry: Array, dx: Array) -> None:
    """dx [h, w] += taps [kh kw, r, c] at the cells that they read: the transpose of gather_taps for one plane."""
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    for kh in range(len(rows)):
        for kw in range(len(cols)):
            first, last = cols[kw]
            start = first * stride_w + kw * dilation_w - padding_w
            for r in range(rows[kh, 0], rows[kh, 1]):
                target = dx[r * stride_h + kh * dilation_h - padding_h, start:]
                source = taps[kh * len(cols) + kw, r, first:last]
                if stride_w == 1:
                    for c in range(len(source)):
                        target[c] += source[c]
                else:
                    for c in range(len(source)):
                        target[c * stride_w] += source[c]


@compiled
def conv2d_forward(
    x: Array, weight: Array, bias: Array, y: Array, rows: Array, cols: Array, geometry: Array, groups: int
) -> None:
    """y [B, O, h, w] = conv(x, weight [O, k]) + bias."""
    outs, inputs = len(weight) // groups, x.shape[1] // groups
    taps = np.zeros((weight.shape[1], y.shape[2], y.shape[3]), x.dtype)
    matrix, every = taps.reshape(len(taps), y.shape[2] * y.shape[3]), np.arange(len(taps))
    for b in range(len(x)):
        for group in range(groups):
            gather_taps(x[b], np.arange(group * inputs, (group + 1) * inputs), rows, cols, geometry, taps)
            for o in range(group * outs, (group + 1) * outs):
                y[b, o] = bias[o]
                add_product(y[b, o].reshape(-1), weight[o], matrix, every)


@compiled
def conv2d_grad_input(
    dy: Array,
    weight: Array,
    dx: Array,
    rows: Array,
    cols: Array,
    geometry: Array,
    outs: Array,
    ins: Array,
) -> None:
    """dx[:, ins] = transposed convolution of dy[:, outs] with weight [O, I / groups, kh kw]."""
    _, per_group, cells = weight.shape
    outs_per_group = len(weight) // (dx.shape[1] // per_group)
    height, width = dy.shape[2:]
    taps, factors = np.empty((cells, height, width), dy.dtype), np.empty((cells, len(outs)), dy.dtype)
    for i in ins:
        group = i // per_group
        first, last = np.searchsorted(outs, group * outs_per_group), np.searchsorted(outs, (group + 1) * outs_per_group)
        chosen = outs[first:last]
        for k in range(len(chosen)):
            factors[:, k] = weight[chosen[k], i % per_group]
        for b in range(len(dy)):
            taps[:] = 0
            for t in range(cells):
                add_product(taps[t].reshape(-1), factors[t], dy[b].reshape(dy.shape[1], height * width), chosen)
            dx[b, i] = 0
            scatter_taps(taps, rows, cols, geometry, dx[b, i])


@compiled
def conv2d_grad_weight(
    x: Array, dy: Array, dw: Array, rows: Array, cols: Array, geometry: Array, outs: Array, planes: Array
) -> None:
    """dw [|outs|, k] from dy[:, outs[j]] and x[:, planes[j]]; consecutive rows of `planes` may be equal."""
    height, width = dy.shape[2:]
    taps = np.zeros((height, width, dw.shape[1]), x.dtype)  # taps innermost: the rows that are added are rows of dw
    matrix, every = taps.reshape(height * width, dw.shape[1]), np.arange(height * width)
    dw[:] = 0
    for b in range(len(x)):
        for j in range(len(outs)):
            if j == 0 or (planes[j] != planes[j - 1]).any():
                gather_taps(x[b], planes[j], rows, cols, geometry, taps.transpose(2, 0, 1))
            add_product(dw[j], dy[b, outs[j]].reshape(-1), matrix, every)

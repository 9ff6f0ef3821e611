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

ROW = 1024  # floats that a sum runs along: samples with small maps share a row, rows of a sum stay in the L1 cache
compiled = numba.njit(cache=True, nogil=True, fastmath=False)


@compiled
def add_product(total: Array, factors: Array, matrix: Array, ids: Array, start: int) -> None:
    """total [n] += sum over k of factors[k] matrix[ids[k], start:]; four rows at a time, to load `total` once."""
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


@compiled
def gather_taps(x: Array, planes: Array, rows: Array, cols: Array, geometry: Array, taps: Array) -> None:
    """taps[k, b, r, c] = the cell that tap k = (i, kh, kw) of output (r, c) reads in plane planes[i] of x [B, C, h, w].

    A tap outside the input is not written: the caller has cleared `taps`, which may have room for more samples.
    """
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    k = 0
    for i in planes:
        for kh in range(len(rows)):
            for kw in range(len(cols)):
                first, count = np.uintp(cols[kw, 0]), np.uintp(cols[kw, 1] - cols[kw, 0])
                start, step = np.uintp(cols[kw, 0] * stride_w + kw * dilation_w - padding_w), np.uintp(stride_w)
                for b in range(len(x)):
                    for r in range(rows[kh, 0], rows[kh, 1]):
                        row = r * stride_h + kh * dilation_h - padding_h
                        if stride_w == 1:
                            for c in range(count):
                                taps[k, b, r, first + c] = x[b, i, row, start + c]
                        else:
                            for c in range(count):
                                taps[k, b, r, first + c] = x[b, i, row, start + c * step]
                k += 1


@compiled
def scatter_taps(taps: Array, rows: Array, cols: Array, geometry: Array, dx: Array, plane: int) -> None:
    """dx[:, plane] += taps [kh kw, B, r, c] at the cells that they read: the transpose of gather_taps for one plane."""
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    for kh in range(len(rows)):
        for kw in range(len(cols)):
            k = kh * len(cols) + kw
            first, count = np.uintp(cols[kw, 0]), np.uintp(cols[kw, 1] - cols[kw, 0])
            start, step = np.uintp(cols[kw, 0] * stride_w + kw * dilation_w - padding_w), np.uintp(stride_w)
            for b in range(len(dx)):
                for r in range(rows[kh, 0], rows[kh, 1]):
                    row = r * stride_h + kh * dilation_h - padding_h
                    if stride_w == 1:
                        for c in range(count):
                            dx[b, plane, row, start + c] += taps[k, b, r, first + c]
                    else:
                        for c in range(count):
                            dx[b, plane, row, start + c * step] += taps[k, b, r, first + c]


@compiled
def conv2d_forward(
    x: Array, weight: Array, bias: Array, y: Array, rows: Array, cols: Array, geometry: Array, groups: int
) -> None:
    """y [B, O, h, w] = conv(x, weight [O, k]) + bias."""
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


@compiled
def conv2d_grad_weight(
    x: Array, dy: Array, dw: Array, rows: Array, cols: Array, geometry: Array, outs: Array, planes: Array
) -> None:
    """dw [|outs|, k] from dy[:, outs[j]] and x[:, planes[j]]; consecutive rows of `planes` may be equal."""
    height, width = dy.shape[2:]
    taps = np.zeros((1, height, width, dw.shape[1]), x.dtype)  # taps innermost: the rows that are added are rows of dw
    matrix, every = taps.reshape(height * width, dw.shape[1]), np.arange(height * width)
    dw[:] = 0
    for b in range(len(x)):
        for j in range(len(outs)):
            if j == 0 or (planes[j] != planes[j - 1]).any():
                gather_taps(x[b : b + 1], planes[j], rows, cols, geometry, taps.transpose(3, 0, 1, 2))
            add_product(dw[j], dy[b, outs[j]].reshape(-1), matrix, every, 0)

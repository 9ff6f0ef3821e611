"""The loops that numba_.py compiles: convolution, pooling, normalisation, ReLU and SGD, one element at a time.

Plain Python without numba, so that a debugger can step through it; far too slow to run uncompiled. The caller checks
the arguments. `rows` and `cols` are [kernel, 2]: the outputs [first, last) whose tap lies inside the input, per
kernel row and column. Convolutions add to a row of sums at once, which compiles to vector code without reordering any
of the sums.
"""

from __future__ import annotations

import math

import numpy as np

from .checks import Array

# ---- convolution: geometry = stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w -----------------------


def conv2d_forward(x: Array, weight: Array, y: Array, rows: Array, cols: Array, geometry: Array) -> None:
    """y += conv(x, weight); y holds the bias already."""
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    outs, per_group, kernel_h, kernel_w = weight.shape
    outs_per_group = outs // (x.shape[1] // per_group)
    for b in range(x.shape[0]):
        for o in range(outs):
            first_plane = o // outs_per_group * per_group
            for i in range(per_group):
                for kh in range(kernel_h):
                    for kw in range(kernel_w):
                        factor = weight[o, i, kh, kw]
                        shift = kw * dilation_w - padding_w
                        for r in range(rows[kh, 0], rows[kh, 1]):
                            source = x[b, first_plane + i, r * stride_h + kh * dilation_h - padding_h]
                            target = y[b, o, r]
                            if stride_w == 1:
                                for c in range(cols[kw, 0], cols[kw, 1]):
                                    target[c] += factor * source[c + shift]
                            else:
                                for c in range(cols[kw, 0], cols[kw, 1]):
                                    target[c] += factor * source[c * stride_w + shift]


def conv2d_grad_input(
    dy: Array, weight: Array, dx: Array, rows: Array, cols: Array, geometry: Array, outs: Array, ins: Array
) -> None:
    """dx[:, ins] += transposed convolution of dy[:, outs]; the caller has cleared dx[:, ins]."""
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    _, per_group, kernel_h, kernel_w = weight.shape
    outs_per_group = weight.shape[0] // (dx.shape[1] // per_group)
    for b in range(dy.shape[0]):
        for i in ins:
            for o in outs:
                if o // outs_per_group != i // per_group:
                    continue
                for kh in range(kernel_h):
                    for kw in range(kernel_w):
                        factor = weight[o, i % per_group, kh, kw]
                        shift = kw * dilation_w - padding_w
                        for r in range(rows[kh, 0], rows[kh, 1]):
                            source = dy[b, o, r]
                            target = dx[b, i, r * stride_h + kh * dilation_h - padding_h]
                            if stride_w == 1:
                                for c in range(cols[kw, 0], cols[kw, 1]):
                                    target[c + shift] += factor * source[c]
                            else:
                                for c in range(cols[kw, 0], cols[kw, 1]):
                                    target[c * stride_w + shift] += factor * source[c]


def conv2d_grad_weight(
    x: Array, dy: Array, dw: Array, rows: Array, cols: Array, geometry: Array, outs: Array, planes: Array
) -> None:
    """dw[j, i] from dy[:, outs[j]] and x[:, planes[j, i]]."""
    stride_h, stride_w, dilation_h, dilation_w, padding_h, padding_w = geometry
    count, per_group, kernel_h, kernel_w = dw.shape
    lanes = np.zeros(dy.shape[3], x.dtype)
    for j in range(count):
        for i in range(per_group):
            for kh in range(kernel_h):
                for kw in range(kernel_w):
                    lanes[:] = 0
                    shift = kw * dilation_w - padding_w
                    for b in range(x.shape[0]):
                        for r in range(rows[kh, 0], rows[kh, 1]):
                            sent = dy[b, outs[j], r]
                            seen = x[b, planes[j, i], r * stride_h + kh * dilation_h - padding_h]
                            if stride_w == 1:
                                for c in range(cols[kw, 0], cols[kw, 1]):
                                    lanes[c] += sent[c] * seen[c + shift]
                            else:
                                for c in range(cols[kw, 0], cols[kw, 1]):
                                    lanes[c] += sent[c] * seen[c * stride_w + shift]
                    dw[j, i, kh, kw] = lanes.sum()


# ---- pooling: the same, with dilation 1 -----------------------------------------------------------------------------


def maxpool_forward(x: Array, y: Array, codes: Array, rows: Array, cols: Array, geometry: Array) -> None:
    """y [P, h, w] and codes; the first of equals wins, a NaN always wins."""
    stride_h, stride_w, _, _, padding_h, padding_w = geometry
    kernel_w = cols.shape[0]
    unseen = np.uint8(255)  # never a code: a window has at most 255 cells
    for plane in range(y.shape[0]):
        codes[plane] = unseen
        for kh in range(rows.shape[0]):
            for kw in range(kernel_w):
                for r in range(rows[kh, 0], rows[kh, 1]):
                    for c in range(cols[kw, 0], cols[kw, 1]):
                        value = x[plane, r * stride_h + kh - padding_h, c * stride_w + kw - padding_w]
                        if codes[plane, r, c] == unseen or value > y[plane, r, c] or math.isnan(value):
                            y[plane, r, c] = value
                            codes[plane, r, c] = kh * kernel_w + kw


def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel_w: int, geometry: Array, channels: Array, channel_count: int
) -> None:
    """dx[planes of channels] += dy at the winning cells; the caller has cleared them."""
    stride_h, stride_w, _, _, padding_h, padding_w = geometry
    for b in range(dy.shape[0] // max(channel_count, 1)):
        for channel in channels:
            plane = b * channel_count + channel
            for r in range(dy.shape[1]):
                for c in range(dy.shape[2]):
                    code = np.int64(codes[plane, r, c])
                    row = r * stride_h + code // kernel_w - padding_h
                    dx[plane, row, c * stride_w + code % kernel_w - padding_w] += dy[plane, r, c]


def avgpool_forward(x: Array, y: Array, rows: Array, cols: Array, geometry: Array, cells: Array) -> None:
    """y [P, h, w] = window sum / cells [h, w]."""
    stride_h, stride_w, _, _, padding_h, padding_w = geometry
    for plane in range(y.shape[0]):
        y[plane] = 0
        for kh in range(rows.shape[0]):
            for kw in range(cols.shape[0]):
                for r in range(rows[kh, 0], rows[kh, 1]):
                    for c in range(cols[kw, 0], cols[kw, 1]):
                        y[plane, r, c] += x[plane, r * stride_h + kh - padding_h, c * stride_w + kw - padding_w]
        y[plane] /= cells


def avgpool_backward(
    dy: Array, dx: Array, rows: Array, cols: Array, geometry: Array, cells: Array, channels: Array, channel_count: int
) -> None:
    """dx[planes of channels] += dy / cells over each window; the caller has cleared them."""
    stride_h, stride_w, _, _, padding_h, padding_w = geometry
    for b in range(dy.shape[0] // max(channel_count, 1)):
        for channel in channels:
            plane = b * channel_count + channel
            share = dy[plane] / cells
            for kh in range(rows.shape[0]):
                for kw in range(cols.shape[0]):
                    for r in range(rows[kh, 0], rows[kh, 1]):
                        for c in range(cols[kw, 0], cols[kw, 1]):
                            dx[plane, r * stride_h + kh - padding_h, c * stride_w + kw - padding_w] += share[r, c]


# ---- normalisation: sums in float64 ---------------------------------------------------------------------------------


def channel_moments(x: Array, mean: Array, var: Array) -> None:
    """Mean and biased variance of x [B, C, inner] per channel."""
    count = x.shape[0] * x.shape[2]
    for channel in range(x.shape[1]):
        total = 0.0
        for b in range(x.shape[0]):
            for p in range(x.shape[2]):
                total += x[b, channel, p]
        mean[channel] = total / count
        square = 0.0
        for b in range(x.shape[0]):
            for p in range(x.shape[2]):
                centred = x[b, channel, p] - mean[channel]
                square += centred * centred
        var[channel] = square / count


def normalise(
    x: Array, weight: Array, bias: Array, mean: Array, inv_std: Array, y: Array, xhat: Array, groups: int
) -> None:
    """xhat = (x - mean) inv_std, y = weight xhat + bias for x [B, C, inner] and statistics [B or 1, groups]."""
    members = x.shape[1] // groups
    for b in range(x.shape[0]):
        row = min(b, mean.shape[0] - 1)
        for channel in range(x.shape[1]):
            group = channel // members
            centre, scale = mean[row, group], inv_std[row, group]
            for p in range(x.shape[2]):
                value = (x[b, channel, p] - centre) * scale
                xhat[b, channel, p] = value
                y[b, channel, p] = weight[channel] * value + bias[channel]


# ---- elementwise ----------------------------------------------------------------------------------------------------


def relu_forward(x: Array, y: Array, bits: Array) -> None:
    """y [P, inner] and bits [P, bytes], of planes; y may alias x."""
    for plane in range(x.shape[0]):
        bits[plane] = 0
        for p in range(x.shape[1]):
            value = x[plane, p]
            if value > 0:
                bits[plane, p // 8] |= np.uint8(1 << (p % 8))
            y[plane, p] = x.dtype.type(0) if value <= 0 else value


def relu_backward(dy: Array, bits: Array, dx: Array, channels: Array, channel_count: int) -> None:
    """dx = dy where the bit is set, else 0, on the planes of `channels`; dx may alias dy."""
    for b in range(dy.shape[0] // max(channel_count, 1)):
        for channel in channels:
            plane = b * channel_count + channel
            for p in range(dy.shape[1]):
                is_on = bits[plane, p // 8] >> (p % 8) & 1
                dx[plane, p] = dy[plane, p] if is_on else dy.dtype.type(0)


def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Array,
    cols: Array,
    scale: float,
    velocity: Array,
    centre: Array,
    linear: Array,
) -> None:
    """One step on w[rows, cols, :]; an empty velocity, centre or linear stands for none."""
    lr, momentum, decay, pull = hyper
    for j in range(rows.shape[0]):
        for k in range(cols.shape[0]):
            for p in range(w.shape[2]):
                value = w[rows[j], cols[k], p]
                step = scale * grad[j, k, p] + decay * value
                if centre.size:
                    step += pull * (value - centre[j, k, p])
                if linear.size:
                    step += linear[j, k, p]
                if velocity.size and momentum != 0:
                    step += momentum * velocity[j, k, p]
                    velocity[j, k, p] = step
                w[rows[j], cols[k], p] = value - lr * step

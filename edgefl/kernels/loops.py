"""Normalisation, ReLU, bias gradients and SGD for the numba backend. How loops are written is told in loops_conv.py.

x is [B, C, inner]. Sums over batch and pixels run in float64 in one lane per pixel and are added up at the end, which
is vector code without reordering any sum. Where an output may be the input, a row is read into `line` first: LLVM takes
the vector loop only if what it writes is apart from what it reads.
"""

from __future__ import annotations

import numpy as np

from .checks import Array
from .loops_conv import compiled

# ---- normalisation --------------------------------------------------------------------------------------------------


@compiled
def moments(x: Array, mean: Array, var: Array) -> None:
    """Mean and biased variance of x [B, C, inner] per channel."""
    count = x.shape[0] * x.shape[2]
    lanes = np.empty(x.shape[2])
    for channel in range(x.shape[1]):
        lanes[:] = 0
        for b in range(len(x)):
            row = x[b, channel]
            for p in range(len(row)):
                lanes[p] += row[p]
        mean[channel] = centre = lanes.sum() / count
        lanes[:] = 0
        for b in range(len(x)):
            row = x[b, channel]
            for p in range(len(row)):
                lanes[p] += (row[p] - centre) * (row[p] - centre)
        var[channel] = lanes.sum() / count


@compiled
def normalise(
    x: Array, weight: Array, bias: Array, mean: Array, inv_std: Array, y: Array, xhat: Array, groups: int
) -> None:
    """xhat = (x - mean) inv_std, y = weight xhat + bias for x [B, C, inner] and statistics [B or 1, groups].

    An empty xhat is not wanted. y or xhat may alias x, not each other.
    """
    members, line = max(x.shape[1] // groups, 1), np.empty(x.shape[2], x.dtype)
    for b in range(len(x)):
        row = min(b, len(mean) - 1)
        for channel in range(x.shape[1]):
            centre, scale = mean[row, channel // members], inv_std[row, channel // members]
            gain, shift = weight[channel], bias[channel]
            source, target = x[b, channel], y[b, channel]
            for p in range(len(line)):
                line[p] = (source[p] - centre) * scale
            if xhat.size:
                xhat[b, channel] = line
            for p in range(len(line)):
                target[p] = gain * line[p] + shift


@compiled
def gradient_sums(dy: Array, xhat: Array, weight_sum: Array, bias_sum: Array, channels: Array) -> None:
    """weight_sum[c] = sum of dy xhat, bias_sum[c] = sum of dy over batch and pixels, for c in channels."""
    products, lanes = np.empty(dy.shape[2]), np.empty(dy.shape[2])
    for channel in channels:
        products[:] = 0
        lanes[:] = 0
        for b in range(len(dy)):
            sent, normal = dy[b, channel], xhat[b, channel]
            for p in range(len(sent)):
                lanes[p] += sent[p]
                products[p] += sent[p] * normal[p]
        weight_sum[channel], bias_sum[channel] = products.sum(), lanes.sum()


@compiled
def batchnorm_backward(
    dy: Array,
    xhat: Array,
    weight: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Array,
    outs: Array,
) -> None:
    """dx for `channels`, dweight and dbias for `outs`."""
    weight_sum, bias_sum = np.empty_like(weight), np.empty_like(weight)
    gradient_sums(dy, xhat, weight_sum, bias_sum, channels)
    count, line = dy.dtype.type(max(dy.shape[0] * dy.shape[2], 1)), np.empty(dy.shape[2], dy.dtype)
    for channel in channels:
        drift, slope = bias_sum[channel] / count, weight_sum[channel] / count
        gain = weight[channel] * inv_std[channel]
        for b in range(len(dy)):
            sent, normal = dy[b, channel], xhat[b, channel]
            for p in range(len(line)):
                line[p] = gain * (sent[p] - drift - normal[p] * slope)
            dx[b, channel] = line
    for j in range(len(outs)):
        dweight[j], dbias[j] = weight_sum[outs[j]], bias_sum[outs[j]]


@compiled
def channel_sum(dy: Array, out: Array, outs: Array) -> None:
    """out[j] = sum of dy[:, outs[j]] of dy [B, C, inner]."""
    lanes = np.empty(dy.shape[2])
    for j in range(len(outs)):
        lanes[:] = 0
        for b in range(len(dy)):
            row = dy[b, outs[j]]
            for p in range(len(row)):
                lanes[p] += row[p]
        out[j] = lanes.sum()


# ---- elementwise and update -----------------------------------------------------------------------------------------


@compiled
def relu_forward(x: Array, y: Array, bits: Array) -> None:
    """y [P, inner] and, unless empty, bits [P, bytes] of planes; y may alias x."""
    line = np.empty(x.shape[1], x.dtype)
    for plane in range(len(x)):
        line[:] = x[plane]
        for byte in range(bits.shape[1]):
            cells, packed = line[8 * byte : 8 * byte + 8], np.uint8(0)
            for p in range(len(cells)):
                packed |= np.uint8(cells[p] > 0) << np.uint8(p)
            bits[plane, byte] = packed
        target = y[plane]
        for p in range(len(line)):
            target[p] = x.dtype.type(0) if line[p] <= 0 else line[p]


@compiled
def relu_backward(dy: Array, bits: Array, dx: Array, channels: Array) -> None:
    """dx[:, channels] = dy where the bit is set, else 0; dx may alias dy."""
    line = np.empty(dy.shape[2], dy.dtype)
    for b in range(len(dy)):
        for channel in channels:
            line[:] = dy[b, channel]
            for byte in range(bits.shape[2]):
                packed = np.int32(bits[b, channel, byte])
                read, written = line[8 * byte : 8 * byte + 8], dx[b, channel, 8 * byte : 8 * byte + 8]
                for p in range(len(read)):
                    is_on = packed >> np.int32(p) & np.int32(1)
                    written[p] = read[p] if is_on else dy.dtype.type(0)


@compiled
def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Array,
    cols: Array,
    scale: Array,
    velocity: Array,
    centre: Array,
    linear: Array,
) -> None:
    """One step on w[rows, cols, :]; an empty velocity, centre or linear stands for none.

    A row's block is gathered, so that every pass below runs along contiguous memory.
    """
    lr, momentum, decay, pull = hyper
    inner = w.shape[2]
    values, step = np.empty((len(cols), inner), w.dtype), np.empty(len(cols) * inner, w.dtype)
    value = values.reshape(len(step))
    for j in range(len(rows)):
        for k in range(len(cols)):
            values[k] = w[rows[j], cols[k]]
        for p in range(len(step)):
            step[p] = scale[0] * grad[j, p] + decay * value[p]
        if centre.size:
            for p in range(len(step)):
                step[p] += pull * (value[p] - centre[j, p])
        if linear.size:
            for p in range(len(step)):
                step[p] += linear[j, p]
        if velocity.size and momentum != 0:
            for p in range(len(step)):
                step[p] += momentum * velocity[j, p]
                velocity[j, p] = step[p]
        for p in range(len(step)):
            value[p] -= lr * step[p]
        for k in range(len(cols)):
            w[rows[j], cols[k]] = values[k]

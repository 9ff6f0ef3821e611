"""Normalisation of the numba backend."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, split_planes
from ..checked_functions import Call, prepares
from .compiled import compiled, spelt_out


@prepares
def batchnorm_forward(
    x: Array,
    weight: Array,
    bias: Array,
    running_mean: Array,
    running_var: Array,
    y: Array,
    xhat: Array,
    inv_std: Array,
    eps: float,
    momentum: float,
) -> Call:
    running = running_mean, running_var, momentum
    return _batchnorm_forward, (
        split_planes(x),
        weight,
        bias,
        *running,
        split_planes(y),
        split_planes(xhat),
        inv_std,
        eps,
    )


def _batchnorm_forward(
    x: Array,
    weight: Array,
    bias: Array,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    y: Array,
    xhat: Array,
    inv_std: Array,
    eps: float,
) -> None:
    channels, count = x.shape[1], x.shape[0] * x.shape[2]
    mean, var = np.empty(channels, x.dtype), np.empty(channels, x.dtype)
    moments(x, mean, var)
    inv_std[:] = 1 / np.sqrt(var + eps)
    normalise(x, weight, bias, mean[None], inv_std[None], y, xhat, max(channels, 1))
    running_mean += momentum * (mean - running_mean)
    running_var += momentum * (var * (count / (count - 1)) - running_var)


@prepares
def batchnorm_eval(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, eps: float
) -> Call:
    return _batchnorm_eval, (split_planes(x), weight, bias, running_mean, running_var, split_planes(y), eps)


def _batchnorm_eval(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, eps: float
) -> None:
    inv_std = 1 / np.sqrt(running_var + running_var.dtype.type(eps))
    normalise(x, weight, bias, running_mean[None], inv_std[None], y, x[:0], max(x.shape[1], 1))


@prepares
def batchnorm_backward(
    dy: Array,
    xhat: Array,
    weight: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Index,
    outs: Index,
) -> Call:
    chosen = spelt_out(channels, dy.shape[1]), spelt_out(outs, dy.shape[1])
    blocks = split_planes(dy), split_planes(xhat), weight, inv_std, split_planes(dx)
    return _batchnorm_backward, (*blocks, dweight, dbias, *chosen)


@compiled
def _batchnorm_backward(
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
    """Compute dx for `channels`, and dweight and dbias for `outs`."""
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
def gradient_sums(dy: Array, xhat: Array, weight_sum: Array, bias_sum: Array, channels: Array) -> None:
    """Sum dy xhat into weight_sum[c], and dy into bias_sum[c], over batch and pixels, for each c in `channels`."""
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


@prepares
def groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, groups: int, eps: float
) -> Call:
    blocks = split_planes(x)
    kept = blocks[:0] if xhat is None else split_planes(xhat)
    return _groupnorm_forward, (blocks, weight, bias, split_planes(y), kept, inv_std, groups, eps)


def _groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array, inv_std: Array, groups: int, eps: float
) -> None:
    members = 1, inv_std.size, x.shape[1] // groups * x.shape[2]
    mean, var = np.empty(inv_std.size, x.dtype), np.empty(inv_std.size, x.dtype)
    moments(x.reshape(members), mean, var)
    inv_std[:] = (1 / np.sqrt(var + var.dtype.type(eps))).reshape(inv_std.shape)
    normalise(x, weight, bias, mean.reshape(inv_std.shape), inv_std, y, xhat, groups)


@compiled
def moments(x: Array, mean: Array, var: Array) -> None:
    """Compute the mean and the biased variance of x [B, C, inner] per channel."""
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
    """Compute xhat = (x - mean) inv_std and y = weight xhat + bias for x [B, C, inner] and statistics [B or 1, groups].

    An empty xhat is not written. y or xhat may alias x, but they may not alias each other.
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

"""Normalisation with ReLU and pooling of the numba backend: the steps run one after the other, over whole arrays.

Each call holds z, or xhat and dz, while it runs. In the loops x is [B, C, H, W], and statistics are [B or 1, groups].
The shape of y (or dy) says whether there is a pool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, Index, split_planes
from ..checked_functions import run
from ..reference.norm import groupnorm_backward
from . import norm
from .compiled import compiled


def batchnorm_relu_forward(
    x: Array,
    weight: Array,
    bias: Array,
    running_mean: Array,
    running_var: Array,
    y: Array,
    mean: Array,
    inv_std: Array,
    eps: float,
    momentum: float,
    relu6: bool,
) -> None:
    z, xhat = np.empty_like(x), np.empty_like(x)
    run(norm.batchnorm_forward(x, weight, bias, running_mean, running_var, z, xhat, inv_std, eps, momentum))
    norm.moments(split_planes(x), mean, np.empty_like(mean))
    rectify(_planes(z), _planes(y), _ceiling(x, relu6))


def batchnorm_relu_eval(
    x: Array,
    weight: Array,
    bias: Array,
    running_mean: Array,
    running_var: Array,
    y: Array,
    eps: float,
    relu6: bool,
) -> None:
    z = np.empty_like(x)
    run(norm.batchnorm_eval(x, weight, bias, running_mean, running_var, z, eps))
    rectify(_planes(z), _planes(y), _ceiling(x, relu6))


def batchnorm_relu_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Index,
    outs: Index,
    relu6: bool,
) -> None:
    xhat, dz = _output_grad(dy, x, weight, bias, mean[None], inv_std[None], relu6)
    run(norm.batchnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, channels, outs))


def groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int, eps: float
) -> None:
    z, blocks = np.empty_like(x), split_planes(x)
    run(norm.groupnorm_forward(x, weight, bias, z, None, inv_std, groups, eps))
    members = blocks.reshape(1, inv_std.size, x.shape[1] // groups * blocks.shape[2])
    norm.moments(members, mean.reshape(-1), np.empty(inv_std.size, x.dtype))
    rectify(_planes(z), _planes(y), _ceiling(x, False))


def groupnorm_relu_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    groups: int,
    groups_needed: Index,
    outs: Index,
) -> None:
    xhat, dz = _output_grad(dy, x, weight, bias, mean, inv_std, False)
    groupnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, groups, groups_needed, outs)


def _planes(x: Array) -> Array:
    """Return x as [B, C, H, W]. Values without two axes of pixels make one row."""
    return x if x.ndim == 4 else split_planes(x)[:, :, None]


def _ceiling(x: Array, relu6: bool) -> Any:
    return x.dtype.type(6 if relu6 else np.inf)


def _output_grad(
    dy: Array, x: Array, weight: Array, bias: Array, mean: Array, inv_std: Array, relu6: bool
) -> tuple[Array, Array]:
    """Compute xhat and dz from statistics [B or 1, groups]."""
    xhat, dz = np.empty_like(x), np.empty_like(x)
    planes = (_planes(dy), _planes(x)), (_planes(xhat), _planes(dz))
    groups = max(mean.shape[1], 1)
    unrectify(*planes[0], weight, bias, mean, inv_std, *planes[1], groups, _ceiling(x, relu6))
    return xhat, dz


@compiled
def rectify(z: Array, y: Array, ceiling: Any) -> None:
    """Compute y = max(z, 0), at most `ceiling`, or the largest such value of each window if y is smaller than z."""
    none = z.dtype.type(0)
    is_pooled = y.shape != z.shape
    for b in range(len(z)):
        for channel in range(z.shape[1]):
            for r in range(y.shape[2]):
                target = y[b, channel, r]
                if is_pooled:
                    top, bottom = z[b, channel, 2 * r], z[b, channel, 2 * r + 1]
                    for c in range(len(target)):
                        largest = max(max(top[2 * c], top[2 * c + 1]), max(bottom[2 * c], bottom[2 * c + 1]))
                        target[c] = none if largest <= 0 else ceiling if largest > ceiling else largest
                else:
                    row = z[b, channel, r]
                    for c in range(len(target)):
                        target[c] = none if row[c] <= 0 else ceiling if row[c] > ceiling else row[c]


@compiled
def unrectify(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    xhat: Array,
    dz: Array,
    groups: int,
    ceiling: Any,
) -> None:
    """Compute xhat of x, and dz: dy where the ReLU was on (with a pool, only at the winner of a window), else 0."""
    members, is_pooled, none = max(x.shape[1] // groups, 1), dy.shape != x.shape, x.dtype.type(0)
    for b in range(len(x)):
        row = min(b, len(mean) - 1)
        for channel in range(x.shape[1]):
            centre, scale = mean[row, channel // members], inv_std[row, channel // members]
            gain, shift = weight[channel], bias[channel]
            plane, normal, target = x[b, channel], xhat[b, channel], dz[b, channel]
            for r in range(x.shape[2]):
                for c in range(x.shape[3]):
                    normal[r, c] = (plane[r, c] - centre) * scale
            if not is_pooled:
                for r in range(x.shape[2]):
                    for c in range(x.shape[3]):
                        target[r, c] = dy[b, channel, r, c] if 0 < gain * normal[r, c] + shift < ceiling else none
                continue
            target[:] = 0
            sign = np.sign(gain)
            for r in range(dy.shape[2]):
                for c in range(dy.shape[3]):
                    at_r, at_c = 2 * r, 2 * c
                    for cell in range(1, 4):
                        other_r, other_c = 2 * r + cell // 2, 2 * c + cell % 2
                        if sign * plane[other_r, other_c] > sign * plane[at_r, at_c]:
                            at_r, at_c = other_r, other_c
                    if 0 < gain * normal[at_r, at_c] + shift < ceiling:
                        target[at_r, at_c] = dy[b, channel, r, c]

"""Normalisation with ReLU and pooling of the numba backend: the parts one after the other, over whole arrays.

Contracts and checks are those of reference_norm_relu.py. Each call holds z, or xhat and dz, while it runs.
"""

from __future__ import annotations

import numpy as np

from . import contracts_norm as contracts
from . import loops, loops_norm_relu
from .checks import Array, Ids
from .numba_norm import batchnorm_forward, groupnorm_forward
from .prepared import Call, all_or, operation, split_planes
from .reference_norm import groupnorm_backward


@operation
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
) -> Call:
    """As reference_norm_relu.batchnorm_relu_forward."""
    contracts.batchnorm_relu_forward(x, weight, bias, running_mean, running_var, y, mean, inv_std)
    return _batchnorm_relu_forward, (x, weight, bias, running_mean, running_var, y, mean, inv_std, eps, momentum)


def _batchnorm_relu_forward(
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
) -> None:
    z, xhat = np.empty_like(x), np.empty_like(x)
    batchnorm_forward(x, weight, bias, running_mean, running_var, z, xhat, inv_std, eps, momentum)
    loops.moments(split_planes(x), mean, np.empty_like(mean))
    loops_norm_relu.rectify(_planes(z), _planes(y))


@operation
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
    channels: Ids,
    outs: Ids,
) -> Call:
    """As reference_norm_relu.batchnorm_relu_backward."""
    contracts.batchnorm_relu_backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, channels, outs)
    chosen = all_or(channels, x.shape[1]), all_or(outs, x.shape[1])
    return _batchnorm_relu_backward, (dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, *chosen)


def _batchnorm_relu_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Array,
    outs: Array,
) -> None:
    xhat, dz = _signal(dy, x, weight, bias, mean[None], inv_std[None])
    blocks = split_planes(dz), split_planes(xhat), weight, inv_std, split_planes(dx)
    loops.batchnorm_backward(*blocks, dweight, dbias, channels, outs)


@operation
def groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int, eps: float
) -> Call:
    """As reference_norm_relu.groupnorm_relu_forward."""
    contracts.groupnorm_relu_forward(x, weight, bias, y, mean, inv_std, groups)
    return _groupnorm_relu_forward, (x, weight, bias, y, mean, inv_std, groups, eps)


def _groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int, eps: float
) -> None:
    z, blocks = np.empty_like(x), split_planes(x)
    groupnorm_forward(x, weight, bias, z, None, inv_std, groups, eps)
    members = blocks.reshape(1, inv_std.size, x.shape[1] // groups * blocks.shape[2])
    loops.moments(members, mean.reshape(-1), np.empty(inv_std.size, x.dtype))
    loops_norm_relu.rectify(_planes(z), _planes(y))


@operation
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
    groups_needed: Ids,
    outs: Ids,
) -> Call:
    """As reference_norm_relu.groupnorm_relu_backward."""
    contracts.groupnorm_relu_backward(
        dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, groups, groups_needed, outs
    )
    return _groupnorm_relu_backward, (
        dy,
        x,
        weight,
        bias,
        mean,
        inv_std,
        dx,
        dweight,
        dbias,
        groups,
        groups_needed,
        outs,
    )


def _groupnorm_relu_backward(
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
    groups_needed: Ids,
    outs: Ids,
) -> None:
    xhat, dz = _signal(dy, x, weight, bias, mean, inv_std)
    groupnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, groups, groups_needed, outs)


def _planes(x: Array) -> Array:
    """x as [B, C, H, W]; values without two axes of pixels make one row."""
    return x if x.ndim == 4 else split_planes(x)[:, :, None]


def _signal(dy: Array, x: Array, weight: Array, bias: Array, mean: Array, inv_std: Array) -> tuple[Array, Array]:
    """xhat and dz, from statistics [B or 1, groups]."""
    xhat, dz = np.empty_like(x), np.empty_like(x)
    planes = (_planes(dy), _planes(x)), (_planes(xhat), _planes(dz))
    groups = max(mean.shape[1], 1)
    loops_norm_relu.unrectify(*planes[0], weight, bias, mean, inv_std, *planes[1], groups)
    return xhat, dz

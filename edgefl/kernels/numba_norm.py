"""Normalisation of the numba backend: checks arguments and prepares calls to loops.py.

Contracts and checks are those of reference_norm.py.
"""

from __future__ import annotations

import numpy as np

from . import contracts_norm as contracts
from . import loops
from .checks import Array, Ids
from .prepared import Call, all_or, operation, split_planes


@operation
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
    """As reference.batchnorm_forward."""
    contracts.batchnorm_forward(x, weight, bias, running_mean, running_var, y, xhat, inv_std)
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
    loops.moments(x, mean, var)
    inv_std[:] = 1 / np.sqrt(var + eps)
    loops.normalise(x, weight, bias, mean[None], inv_std[None], y, xhat, max(channels, 1))
    running_mean += momentum * (mean - running_mean)
    running_var += momentum * (var * (count / (count - 1)) - running_var)


@operation
def batchnorm_eval(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, eps: float
) -> Call:
    """As reference.batchnorm_eval."""
    contracts.batchnorm_eval(x, weight, bias, running_mean, running_var, y)
    return _batchnorm_eval, (split_planes(x), weight, bias, running_mean, running_var, split_planes(y), eps)


def _batchnorm_eval(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, eps: float
) -> None:
    inv_std = 1 / np.sqrt(running_var + running_var.dtype.type(eps))
    loops.normalise(x, weight, bias, running_mean[None], inv_std[None], y, x[:0], max(x.shape[1], 1))


@operation
def batchnorm_backward(
    dy: Array,
    xhat: Array,
    weight: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    channels: Ids,
    outs: Ids,
) -> Call:
    """As reference.batchnorm_backward."""
    contracts.batchnorm_backward(dy, xhat, weight, inv_std, dx, dweight, dbias, channels, outs)
    chosen = all_or(channels, dy.shape[1]), all_or(outs, dy.shape[1])
    blocks = split_planes(dy), split_planes(xhat), weight, inv_std, split_planes(dx)
    return loops.batchnorm_backward, (*blocks, dweight, dbias, *chosen)


@operation
def groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, groups: int, eps: float
) -> Call:
    """As reference.groupnorm_forward."""
    contracts.groupnorm_forward(x, weight, bias, y, xhat, inv_std, groups)
    blocks = split_planes(x)
    kept = blocks[:0] if xhat is None else split_planes(xhat)
    return _groupnorm_forward, (blocks, weight, bias, split_planes(y), kept, inv_std, groups, eps)


def _groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array, inv_std: Array, groups: int, eps: float
) -> None:
    members = 1, inv_std.size, x.shape[1] // groups * x.shape[2]
    mean, var = np.empty(inv_std.size, x.dtype), np.empty(inv_std.size, x.dtype)
    loops.moments(x.reshape(members), mean, var)
    inv_std[:] = (1 / np.sqrt(var + var.dtype.type(eps))).reshape(inv_std.shape)
    loops.normalise(x, weight, bias, mean.reshape(inv_std.shape), inv_std, y, xhat, groups)

"""Normalisation, ReLU and a 2 x 2 max pool of stride 2 as one operation, in plain numpy and from the parts. Not fast.

y has the shape of x, or the pooled one. The backward pass is given x and the statistics, and finds again from them
where the ReLU was on and which cell of a window won: the first with the largest sign(weight) * x.
"""

from __future__ import annotations

import numpy as np

from . import contracts_norm as contracts
from .checks import Array, Ids
from .reference_norm import batchnorm_backward, batchnorm_forward, groupnorm_backward, groupnorm_forward


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
) -> None:
    """y = max(z, 0), z = batchnorm_forward's y, or the largest in each window; mean and inv_std of the batch [C]."""
    contracts.batchnorm_relu_forward(x, weight, bias, running_mean, running_var, y, mean, inv_std)
    z, xhat = np.empty_like(x), np.empty_like(x)
    batchnorm_forward(x, weight, bias, running_mean, running_var, z, xhat, inv_std, eps, momentum)
    mean[:] = x.mean(axis=(0, *range(2, x.ndim)))
    _rectify(z, y)


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
) -> None:
    """dx for `channels` (dx may alias x); dweight and dbias compact for `outs`, which are among `channels`."""
    contracts.batchnorm_relu_backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, channels, outs)
    xhat = ((x.reshape(*x.shape[:2], -1) - mean[:, None]) * inv_std[:, None]).reshape(x.shape)
    dz = _signal(dy, x, xhat, weight, bias)
    batchnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, channels, outs)


def groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int, eps: float
) -> None:
    """The same per sample and group of channels; mean and inv_std [B, groups]."""
    contracts.groupnorm_relu_forward(x, weight, bias, y, mean, inv_std, groups)
    z = np.empty_like(x)
    groupnorm_forward(x, weight, bias, z, None, inv_std, groups, eps)
    mean[:] = x.reshape(len(x), groups, int(np.prod(x.shape[1:])) // groups).mean(axis=2)
    _rectify(z, y)


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
) -> None:
    """dx for every channel of `groups_needed` (dx may alias x); dweight, dbias compact for `outs`, in those groups."""
    contracts.groupnorm_relu_backward(
        dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, groups, groups_needed, outs
    )
    members = x.reshape(len(x), groups, int(np.prod(x.shape[1:])) // groups)
    xhat = ((members - mean[:, :, None]) * inv_std[:, :, None]).reshape(x.shape)
    dz = _signal(dy, x, xhat, weight, bias)
    groupnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, groups, groups_needed, outs)


def _per_channel(values: Array, x: Array) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 2))


def _windows(x: Array) -> Array:
    """A copy of the windows of x [B, C, H, W]: [B, C, H // 2, W // 2, 4]."""
    batch, channels, height, width = (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
    cells = x[:, :, : 2 * height, : 2 * width].reshape(batch, channels, height, 2, width, 2)
    return cells.transpose(0, 1, 2, 4, 3, 5).reshape(batch, channels, height, width, 4)


def _rectify(z: Array, y: Array) -> None:
    np.maximum(z if y.shape == z.shape else _windows(z).max(axis=-1), 0, out=y)


def _signal(dy: Array, x: Array, xhat: Array, weight: Array, bias: Array) -> Array:
    """dy where the ReLU was on, else 0, in the shape of x: in a window at the winning cell."""
    z = _per_channel(weight, x) * xhat + _per_channel(bias, x)
    if dy.shape == x.shape:
        return np.where(z > 0, dy, 0)
    winner = _windows(_per_channel(np.sign(weight), x) * x).argmax(axis=-1)[..., None]
    is_on = np.take_along_axis(_windows(z), winner, axis=-1) > 0
    sent = np.zeros((*dy.shape, 4), dy.dtype)
    np.put_along_axis(sent, winner, np.where(is_on, dy[..., None], 0), axis=-1)
    batch, channels, height, width = dy.shape
    dz = np.zeros_like(x)
    rows = sent.reshape(batch, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    dz[:, :, : 2 * height, : 2 * width] = rows.reshape(batch, channels, 2 * height, 2 * width)
    return dz

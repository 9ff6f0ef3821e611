"""Batch and group normalisation in plain numpy: the definition that faster kernels are compared with. Not fast.

Batch normalisation is over batch and pixels per channel, group normalisation over the channels and pixels of a group
per sample. Biased variance; the running statistics move with the unbiased one (PyTorch).
"""

from __future__ import annotations

import numpy as np

from . import contracts_norm as contracts
from .checks import Array, Ids


def _planes(x: Array) -> Array:
    """[B, C, ...] as [B, C, inner]."""
    return x.reshape(*x.shape[:2], int(np.prod(x.shape[2:])))


def _members(shape: tuple[int, ...], groups: int) -> tuple[int, int, int]:
    """The shape [B, groups, values per group]."""
    return shape[0], groups, shape[1] // groups * int(np.prod(shape[2:]))


def _affine(x: Array, weight: Array, bias: Array) -> Array:
    return weight[:, None] * _planes(x) + bias[:, None]


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
) -> None:
    """xhat = (x - mean) / sqrt(var + eps) per channel, y = weight xhat + bias; running statistics move by `momentum`.

    y or xhat may alias x, not each other.
    """
    contracts.batchnorm_forward(x, weight, bias, running_mean, running_var, y, xhat, inv_std)
    planes = _planes(x)
    count = planes.shape[0] * planes.shape[2]
    mean = planes.mean(axis=(0, 2))
    centred = planes - mean[:, None]
    var = (centred * centred).mean(axis=(0, 2))
    inv_std[:] = 1 / np.sqrt(var + eps)
    xhat[:] = (centred * inv_std[:, None]).reshape(x.shape)
    y[:] = _affine(xhat, weight, bias).reshape(x.shape)
    running_mean += momentum * (mean - running_mean)
    running_var += momentum * (var * (count / (count - 1)) - running_var)


def batchnorm_eval(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, eps: float
) -> None:
    """y = weight (x - running_mean) / sqrt(running_var + eps) + bias per channel. y may alias x."""
    contracts.batchnorm_eval(x, weight, bias, running_mean, running_var, y)
    gain = weight / np.sqrt(running_var + eps)
    y[:] = _affine(x, gain, bias - running_mean * gain).reshape(x.shape)


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
) -> None:
    """dx for `channels` (dx may alias dy); dweight and dbias compact for `outs`, which are among `channels`."""
    contracts.batchnorm_backward(dy, xhat, weight, inv_std, dx, dweight, dbias, channels, outs)
    chosen = slice(None) if channels is None else channels
    sent, seen = _planes(dy)[:, chosen], _planes(xhat)[:, chosen]
    bias_sum, weight_sum = sent.sum(axis=(0, 2)), (sent * seen).sum(axis=(0, 2))
    count = max(sent.shape[0] * sent.shape[2], 1)
    pulled = sent - (bias_sum[:, None] + seen * weight_sum[:, None]) / count
    _planes(dx)[:, chosen] = pulled * (weight * inv_std)[chosen, None]
    rows = slice(None) if outs is None else outs if channels is None else np.searchsorted(channels, outs)
    dweight[:], dbias[:] = weight_sum[rows], bias_sum[rows]


def groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, groups: int, eps: float
) -> None:
    """The same per sample and group of channels; inv_std [B, groups]. xhat may be None (evaluation)."""
    contracts.groupnorm_forward(x, weight, bias, y, xhat, inv_std, groups)
    members = x.reshape(_members(x.shape, groups))
    centred = members - members.mean(axis=2, keepdims=True)
    inv_std[:] = 1 / np.sqrt((centred * centred).mean(axis=2) + eps)
    normal = (centred * inv_std[:, :, None]).reshape(x.shape)
    y[:] = _affine(normal, weight, bias).reshape(x.shape)
    if xhat is not None:
        xhat[:] = normal


def groupnorm_backward(
    dy: Array,
    xhat: Array,
    weight: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array,
    dbias: Array,
    groups: int,
    groups_needed: Ids,
    outs: Ids,
) -> None:
    """dx for every channel of `groups_needed` (dx may alias dy); dweight, dbias compact for `outs`, in those groups."""
    contracts.groupnorm_backward(dy, xhat, weight, inv_std, dx, dweight, dbias, groups, groups_needed, outs)
    rows = slice(None) if outs is None else outs
    trained = _planes(dy)[:, rows]
    weight_sum, bias_sum = (trained * _planes(xhat)[:, rows]).sum(axis=(0, 2)), trained.sum(axis=(0, 2))
    by_group = _members(dy.shape, groups)
    chosen = slice(None) if groups_needed is None else groups_needed
    gain = np.broadcast_to(weight[:, None], _planes(dy).shape).reshape(by_group)[:, chosen]
    sent, seen = dy.reshape(by_group)[:, chosen] * gain, xhat.reshape(by_group)[:, chosen]
    pulled = sent - sent.mean(axis=2, keepdims=True) - seen * (sent * seen).mean(axis=2, keepdims=True)
    dx.reshape(by_group)[:, chosen] = pulled * inv_std[:, chosen, None]
    dweight[:], dbias[:] = weight_sum, bias_sum

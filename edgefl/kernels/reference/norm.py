"""Batch, group and layer normalisation, alone and with ReLU and pooling, in plain numpy. It is not fast.

Batch normalisation is over batch and pixels per channel. Group normalisation is over the channels and pixels of a group
per sample. The variance is biased, but the running statistics move with the unbiased variance, as in PyTorch. With
ReLU, y has the shape of x, or the shape of its 2 x 2 max pool of stride 2. The backward pass is given x and the
statistics. From them it finds again where the ReLU was on, and which cell of a window won: the first cell with the
largest sign(weight) * x.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, split_planes


def _members(shape: tuple[int, ...], groups: int) -> tuple[int, int, int]:
    """Return the shape [B, groups, values per group]."""
    return shape[0], groups, shape[1] // groups * int(np.prod(shape[2:]))


def _affine(x: Array, weight: Array, bias: Array) -> Array:
    return weight[:, None] * split_planes(x) + bias[:, None]


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
    """Compute xhat = (x - mean) / sqrt(var + eps) per channel and y = weight xhat + bias.

    The running statistics move by `momentum`. y or xhat may alias x, but they may not alias each other.
    """
    planes = split_planes(x)
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
    """Compute y = weight (x - running_mean) / sqrt(running_var + eps) + bias per channel. y may alias x."""
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
    channels: Index,
    outs: Index,
) -> None:
    """Compute dx for `channels`, and compact dweight and dbias for `outs`, a part of `channels`. dx may alias dy."""
    chosen = slice(None) if channels is None else channels
    sent, seen = split_planes(dy)[:, chosen], split_planes(xhat)[:, chosen]
    bias_sum, weight_sum = sent.sum(axis=(0, 2)), (sent * seen).sum(axis=(0, 2))
    count = max(sent.shape[0] * sent.shape[2], 1)
    pulled = sent - (bias_sum[:, None] + seen * weight_sum[:, None]) / count
    split_planes(dx)[:, chosen] = pulled * (weight * inv_std)[chosen, None]
    rows = slice(None) if outs is None else outs if channels is None else np.searchsorted(channels, outs)
    dweight[:], dbias[:] = weight_sum[rows], bias_sum[rows]


def groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, groups: int, eps: float
) -> None:
    """Compute batchnorm_forward per sample and group of channels, without running statistics.

    inv_std is [B, groups]. xhat may be None, as in an evaluation.
    """
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
    groups_needed: Index,
    outs: Index,
) -> None:
    """Compute dx for every channel of `groups_needed`, and compact dweight and dbias for `outs`, which are in those
    groups.

    dx may alias dy.
    """
    rows = slice(None) if outs is None else outs
    trained = split_planes(dy)[:, rows]
    weight_sum, bias_sum = (trained * split_planes(xhat)[:, rows]).sum(axis=(0, 2)), trained.sum(axis=(0, 2))
    by_group = _members(dy.shape, groups)
    chosen = slice(None) if groups_needed is None else groups_needed
    gain = np.broadcast_to(weight[:, None], split_planes(dy).shape).reshape(by_group)[:, chosen]
    sent, seen = dy.reshape(by_group)[:, chosen] * gain, xhat.reshape(by_group)[:, chosen]
    pulled = sent - sent.mean(axis=2, keepdims=True) - seen * (sent * seen).mean(axis=2, keepdims=True)
    dx.reshape(by_group)[:, chosen] = pulled * inv_std[:, chosen, None]
    dweight[:], dbias[:] = weight_sum, bias_sum


# ---- with ReLU and pooling ------------------------------------------------------------------------------------------


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
    """Compute y = max(z, 0) with z = batchnorm_forward's y, or the largest such value in each window.

    With relu6, y is at most 6. The statistics are [C].
    """
    z, xhat = np.empty_like(x), np.empty_like(x)
    batchnorm_forward(x, weight, bias, running_mean, running_var, z, xhat, inv_std, eps, momentum)
    mean[:] = x.mean(axis=(0, *range(2, x.ndim)))
    _rectify(z, y, relu6)


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
    """Compute batchnorm_relu_forward with z = batchnorm_eval's y. y may alias x where both have one shape."""
    z = np.empty_like(x)
    batchnorm_eval(x, weight, bias, running_mean, running_var, z, eps)
    _rectify(z, y, relu6)


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
    """Compute dx for `channels`, and compact dweight and dbias for `outs`, a part of `channels`. dx may alias x."""
    xhat = ((x.reshape(*x.shape[:2], -1) - mean[:, None]) * inv_std[:, None]).reshape(x.shape)
    dz = _output_grad(dy, x, xhat, weight, bias, relu6)
    batchnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, channels, outs)


def groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int, eps: float
) -> None:
    """Compute batchnorm_relu_forward per sample and group of channels. mean and inv_std are [B, groups]."""
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
    groups_needed: Index,
    outs: Index,
) -> None:
    """Compute dx for every channel of `groups_needed`, and compact dweight and dbias for `outs`, which are in those
    groups.

    dx may alias x.
    """
    members = x.reshape(len(x), groups, int(np.prod(x.shape[1:])) // groups)
    xhat = ((members - mean[:, :, None]) * inv_std[:, :, None]).reshape(x.shape)
    dz = _output_grad(dy, x, xhat, weight, bias)
    groupnorm_backward(dz, xhat, weight, inv_std, dx, dweight, dbias, groups, groups_needed, outs)


def _per_channel(values: Array, x: Array) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 2))


def _windows(x: Array) -> Array:
    """Return a copy of the windows of x [B, C, H, W], as [B, C, H // 2, W // 2, 4]."""
    batch, channels, height, width = (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
    cells = x[:, :, : 2 * height, : 2 * width].reshape(batch, channels, height, 2, width, 2)
    return cells.transpose(0, 1, 2, 4, 3, 5).reshape(batch, channels, height, width, 4)


def _rectify(z: Array, y: Array, relu6: bool = False) -> None:
    np.maximum(z if y.shape == z.shape else _windows(z).max(axis=-1), 0, out=y)
    if relu6:
        np.minimum(y, 6, out=y)


def _is_on(z: Array, relu6: bool) -> Array:
    return (z > 0) & (z < 6) if relu6 else z > 0


def _output_grad(dy: Array, x: Array, xhat: Array, weight: Array, bias: Array, relu6: bool = False) -> Array:
    """Return dy where the ReLU was on, else 0, in the shape of x. With a pool, only the winning cell of a window has
    dy.
    """
    z = _per_channel(weight, x) * xhat + _per_channel(bias, x)
    if dy.shape == x.shape:
        return np.where(_is_on(z, relu6), dy, 0)
    winner = _windows(_per_channel(np.sign(weight), x) * x).argmax(axis=-1)[..., None]
    is_on = _is_on(np.take_along_axis(_windows(z), winner, axis=-1), relu6)
    sent = np.zeros((*dy.shape, 4), dy.dtype)
    np.put_along_axis(sent, winner, np.where(is_on, dy[..., None], 0), axis=-1)
    batch, channels, height, width = dy.shape
    dz = np.zeros_like(x)
    rows = sent.reshape(batch, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    dz[:, :, : 2 * height, : 2 * width] = rows.reshape(batch, channels, 2 * height, 2 * width)
    return dz


# ---- images side by side --------------------------------------------------------------------------------------------


def groupnorm_lanes_forward(
    x: Array,
    weight: Array,
    bias: Array,
    y: Array,
    mean: Array,
    inv_std: Array,
    groups: int,
    relu: bool,
    eps: float,
) -> None:
    """Compute groupnorm_forward of L images side by side, [B, C, cells, L], then max(z, 0) if `relu`.

    mean is [B, groups, L].
    """
    apart = _apart(x)
    z, found = np.empty_like(apart), np.empty((len(apart), groups), x.dtype)
    groupnorm_forward(apart, weight, bias, z, None, found, groups, eps)
    inv_std[:] = _together(found, x)
    mean[:] = _together(apart.reshape(len(apart), groups, int(np.prod(apart.shape[1:])) // groups).mean(axis=2), x)
    y[:] = _together(np.maximum(z, 0) if relu else z, x)


def groupnorm_lanes_backward(
    dy: Array,
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array,
    inv_std: Array,
    dx: Array,
    dweight: Array | None,
    dbias: Array | None,
    groups: int,
    relu: bool,
) -> None:
    """Compute the backward pass of groupnorm_lanes_forward from x alone. dx may alias dy or x."""
    apart, sent = _apart(x), _apart(dy)
    centre, scale = (_apart(each) for each in (mean, inv_std))
    members = apart.reshape(len(apart), groups, int(np.prod(apart.shape[1:])) // groups)
    xhat = ((members - centre[:, :, None]) * scale[:, :, None]).reshape(apart.shape)
    dz = _output_grad(sent, apart, xhat, weight, bias) if relu else sent
    found, gains, shifts = np.empty_like(apart), np.empty_like(weight), np.empty_like(bias)
    groupnorm_backward(dz, xhat, weight, scale, found, gains, shifts, groups, None, None)
    dx[:] = _together(found, x)
    if dweight is not None and dbias is not None:
        dweight[:], dbias[:] = gains, shifts


def _apart(x: Array) -> Array:
    """Turn x [B, ..., L] into [B L, ...]."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)).reshape(x.shape[0] * x.shape[-1], *x.shape[1:-1])


def _together(x: Array, like: Array) -> Array:
    """Undo `_apart`, for as many images side by side as `like` has."""
    return np.moveaxis(x.reshape(like.shape[0], like.shape[-1], *x.shape[1:]), 1, -1)


def layernorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, eps: float
) -> None:
    """Compute xhat = (x - mean) / sqrt(var + eps) with the statistics of each position's channels.

    y is weight xhat + bias. y or xhat may alias x, but they may not alias each other.
    """
    centred = x - x.mean(axis=1, keepdims=True)
    inv_std[:] = 1 / np.sqrt((centred * centred).mean(axis=1) + eps)
    normal = centred * inv_std[:, None]
    if xhat is not None:
        xhat[:] = normal
    y[:] = weight[:, None] * normal + bias[:, None]


def layernorm_backward(
    dy: Array, xhat: Array, weight: Array, inv_std: Array, dx: Array, dweight: Array, dbias: Array, outs: Index
) -> None:
    """Compute dx for all channels, and compact dweight and dbias for `outs`. dx may alias dy."""
    rows = slice(None) if outs is None else outs
    dweight[:], dbias[:] = (dy * xhat).sum(axis=(0, 2))[rows], dy.sum(axis=(0, 2))[rows]
    sent = weight[:, None] * dy
    pulled = sent - sent.mean(axis=1, keepdims=True) - xhat * (sent * xhat).mean(axis=1, keepdims=True)
    dx[:] = inv_std[:, None] * pulled

"""Kernels for machines without a C++ compiler: the loops of loops.py, compiled by numba. The only file that imports it.

Compiled here, one thread, no fast-math, cached on disk: convolution, pooling, normalisation forward, ReLU, SGD. The
rest is reference.py's: gathers and scatters are numpy's indexing, linear layers BLAS products, normalisation backward
a few passes of numpy, and the loss and the sums one pass over little data. Contracts and checks are those of
reference.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from . import contracts, contracts_conv, loops
from .checks import Array, Ids, Pair, Window
from .program import Program as _RecordedCalls
from .reference import (
    add,
    batchnorm_backward,
    channel_sum,
    clip_scale,
    fill_zero,
    gather_labels,
    gather_rows,
    groupnorm_backward,
    linear_forward,
    linear_grad_input,
    linear_grad_weight,
    put_axes,
    put_flat,
    softmax_xent,
    sum_squares,
    take_axes,
    take_channels,
    take_flat,
)
from .reference_conv import planes_read, pool_cells

__all__ = [
    "Program",
    "add",
    "avgpool_backward",
    "avgpool_forward",
    "batchnorm_backward",
    "batchnorm_eval",
    "batchnorm_forward",
    "channel_sum",
    "clip_scale",
    "conv2d_forward",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "fill_zero",
    "gather_labels",
    "gather_rows",
    "groupnorm_backward",
    "groupnorm_forward",
    "linear_forward",
    "linear_grad_input",
    "linear_grad_weight",
    "maxpool_backward",
    "maxpool_forward",
    "put_axes",
    "put_flat",
    "relu_backward",
    "relu_forward",
    "sgd",
    "softmax_xent",
    "sum_squares",
    "take_axes",
    "take_channels",
    "take_flat",
]


def _compiled(loop: Callable[..., None]) -> Callable[..., None]:
    compiled: Callable[..., None] = numba.njit(cache=True, fastmath=False)(loop)
    return compiled


_conv2d_forward = _compiled(loops.conv2d_forward)
_conv2d_grad_input = _compiled(loops.conv2d_grad_input)
_conv2d_grad_weight = _compiled(loops.conv2d_grad_weight)
_maxpool_forward = _compiled(loops.maxpool_forward)
_maxpool_backward = _compiled(loops.maxpool_backward)
_avgpool_forward = _compiled(loops.avgpool_forward)
_avgpool_backward = _compiled(loops.avgpool_backward)
_channel_moments = _compiled(loops.channel_moments)
_normalise = _compiled(loops.normalise)
_relu_forward = _compiled(loops.relu_forward)
_relu_backward = _compiled(loops.relu_backward)
_sgd = _compiled(loops.sgd)


def _all_or(ids: Ids, size: int) -> Array:
    return np.arange(size, dtype=np.int32) if ids is None else ids


def _planes(x: Array) -> Array:
    """[B, C, ...] as [B C, inner]."""
    return x.reshape(x.shape[0] * x.shape[1], int(np.prod(x.shape[2:])))


def _maps(x: Array) -> Array:
    """[B, C, h, w] as [B C, h, w]."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _spans(window: Window, axis: int) -> Array:
    """[kernel, 2]: for each tap of the axis, the outputs [first, last) that read inside the input."""
    stride, size = window.stride[axis], window.source[axis]
    offset = np.arange(window.kernel[axis]) * window.dilation[axis] - window.padding[axis]
    bounds = np.stack([-(offset // stride), -((offset - size) // stride)], axis=1)
    return np.clip(bounds, 0, window.result[axis])


def _walk(window: Window) -> tuple[Array, Array, Array]:
    """The spans of rows and columns, and the geometry, as loops.py wants them."""
    geometry = np.array([*window.stride, *window.dilation, *window.padding], np.int64)
    return _spans(window, 0), _spans(window, 1), geometry


# ---- convolution ----------------------------------------------------------------------------------------------------


def conv2d_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None:
    """As reference.conv2d_forward."""
    window = contracts_conv.conv2d_forward(x, weight, bias, y, stride, padding, dilation, groups)
    y[:] = 0 if bias is None else bias[:, None, None]
    _conv2d_forward(x, weight, y, *_walk(window))


def conv2d_grad_input(
    dy: Array, weight: Array, dx: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int, outs: Ids, ins: Ids
) -> None:
    """As reference.conv2d_grad_input."""
    window = contracts_conv.conv2d_grad_input(dy, weight, dx, stride, padding, dilation, groups, outs, ins)
    columns = _all_or(ins, dx.shape[1])
    dx[:, columns] = 0
    _conv2d_grad_input(dy, weight, dx, *_walk(window), _all_or(outs, len(weight)), columns)


def conv2d_grad_weight(
    x: Array,
    dy: Array,
    dw: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Ids,
    ins: Ids,
    in_channels: int,
) -> None:
    """As reference.conv2d_grad_weight."""
    window = contracts_conv.conv2d_grad_weight(x, dy, dw, stride, padding, dilation, groups, outs, ins, in_channels)
    rows = _all_or(outs, dy.shape[1])
    if groups == 1:
        planes = np.broadcast_to(_all_or(ins, x.shape[1]), dw.shape[:2]).astype(np.int64)
    else:
        planes = planes_read(rows, dy.shape[1] // groups, in_channels // groups, x.shape[1] == in_channels)
    _conv2d_grad_weight(x, dy, dw, *_walk(window), rows, planes.astype(np.int64))


# ---- pooling --------------------------------------------------------------------------------------------------------


def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> None:
    """As reference.maxpool_forward."""
    window = contracts_conv.maxpool_forward(x, y, codes, kernel, stride, padding)
    kept = np.empty(y.shape, np.uint8) if codes is None else codes.reshape(y.shape)
    _maxpool_forward(_maps(x), _maps(y), _maps(kept), *_walk(window))


def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Ids
) -> None:
    """As reference.maxpool_backward."""
    window = contracts_conv.maxpool_backward(dy, codes, dx, kernel, stride, padding, channels)
    chosen = _all_or(channels, dx.shape[1])
    dx[:, chosen] = 0
    geometry = _walk(window)[2]
    _maxpool_backward(_maps(dy), _maps(codes.reshape(dy.shape)), _maps(dx), kernel[1], geometry, chosen, dx.shape[1])


def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    """As reference.avgpool_forward."""
    window = contracts_conv.avgpool_forward(x, y, kernel, stride, padding)
    cells = pool_cells(window, count_include_pad, y.dtype)[0, 0]
    _avgpool_forward(_maps(x), _maps(y), *_walk(window), cells)


def avgpool_backward(
    dy: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, channels: Ids
) -> None:
    """As reference.avgpool_backward."""
    window = contracts_conv.avgpool_backward(dy, dx, kernel, stride, padding, channels)
    chosen = _all_or(channels, dx.shape[1])
    dx[:, chosen] = 0
    cells = pool_cells(window, count_include_pad, dy.dtype)[0, 0]
    _avgpool_backward(_maps(dy), _maps(dx), *_walk(window), cells, chosen, dx.shape[1])


# ---- normalisation --------------------------------------------------------------------------------------------------


def _blocks(x: Array) -> Array:
    """[B, C, ...] as [B, C, inner]."""
    return x.reshape(*x.shape[:2], int(np.prod(x.shape[2:])))


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
    """As reference.batchnorm_forward."""
    contracts.batchnorm_forward(x, weight, bias, running_mean, running_var, y, xhat, inv_std)
    channels = x.shape[1]
    count = x.size // max(channels, 1)
    mean, var = np.empty(channels, x.dtype), np.empty(channels, x.dtype)
    _channel_moments(_blocks(x), mean, var)
    inv_std[:] = 1 / np.sqrt(var + eps)
    _normalise(_blocks(x), weight, bias, mean[None], inv_std[None], _blocks(y), _blocks(xhat), max(channels, 1))
    running_mean += momentum * (mean - running_mean)
    running_var += momentum * (var * (count / max(count - 1, 1)) - running_var)


def batchnorm_eval(
    x: Array, weight: Array, bias: Array, running_mean: Array, running_var: Array, y: Array, eps: float
) -> None:
    """As reference.batchnorm_eval."""
    contracts.batchnorm_eval(x, weight, bias, running_mean, running_var, y)
    inv_std = 1 / np.sqrt(running_var + running_var.dtype.type(eps))
    into = _blocks(y)  # xhat is not wanted: it is written first and overwritten by y
    _normalise(_blocks(x), weight, bias, running_mean[None], inv_std[None], into, into, max(x.shape[1], 1))


def groupnorm_forward(
    x: Array, weight: Array, bias: Array, y: Array, xhat: Array | None, inv_std: Array, groups: int, eps: float
) -> None:
    """As reference.groupnorm_forward."""
    contracts.groupnorm_forward(x, weight, bias, y, xhat, inv_std, groups)
    members = (1, len(x) * groups, x.shape[1] // groups * int(np.prod(x.shape[2:])))
    mean, var = np.empty(len(x) * groups, x.dtype), np.empty(len(x) * groups, x.dtype)
    _channel_moments(x.reshape(members), mean, var)
    inv_std[:] = (1 / np.sqrt(var + var.dtype.type(eps))).reshape(inv_std.shape)
    kept = y if xhat is None else xhat
    _normalise(_blocks(x), weight, bias, mean.reshape(inv_std.shape), inv_std, _blocks(y), _blocks(kept), groups)


# ---- elementwise and update -----------------------------------------------------------------------------------------


def relu_forward(x: Array, y: Array, bits: Array | None) -> None:
    """As reference.relu_forward."""
    contracts.relu_forward(x, y, bits)
    planes = _planes(x)
    shape = (len(planes), (planes.shape[1] + 7) // 8)
    _relu_forward(planes, _planes(y), np.empty(shape, np.uint8) if bits is None else bits.reshape(shape))


def relu_backward(dy: Array, bits: Array, dx: Array, channels: Ids) -> None:
    """As reference.relu_backward."""
    contracts.relu_backward(dy, bits, dx, channels)
    planes = _planes(dy)
    kept = bits.reshape(len(planes), (planes.shape[1] + 7) // 8)
    _relu_backward(planes, kept, _planes(dx), _all_or(channels, dy.shape[1]), dy.shape[1])


def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Ids,
    cols: Ids,
    scale: Array | None = None,
    velocity: Array | None = None,
    centre: Array | None = None,
    linear: Array | None = None,
) -> None:
    """As reference.sgd."""
    contracts.sgd(w, grad, hyper, rows, cols, scale, velocity, centre, linear)
    row_ids, col_ids = _all_or(rows, w.shape[0]), _all_or(cols, w.shape[1])
    block, none = (len(row_ids), len(col_ids), w.shape[2]), np.empty((0, 0, 0), w.dtype)
    extras = [none if extra is None else extra.reshape(block) for extra in (velocity, centre, linear)]
    factor = w.dtype.type(1) if scale is None else scale[0]
    _sgd(w, grad.reshape(block), hyper, row_ids, col_ids, factor, *extras)


class Program(_RecordedCalls):
    """A recorded list of calls to the operations above."""

    def __init__(self) -> None:
        super().__init__(globals())

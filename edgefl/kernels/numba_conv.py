"""Convolution and pooling of the numba backend: checks arguments and prepares calls to loops_conv.py and loops_pool.py.

Contracts and checks are those of reference_conv.py.
"""

from __future__ import annotations

import math

import numpy as np

from . import contracts_conv, loops_conv, loops_pool
from .checks import Array, Ids, Pair, Window
from .prepared import Call, all_or, operation
from .reference_conv import planes_read, pool_cells


def _planes(x: Array) -> Array:
    """[B, C, ...] as [B C, inner]."""
    return x.reshape(x.shape[0] * x.shape[1], math.prod(x.shape[2:]))


def _maps(x: Array) -> Array:
    """[B, C, h, w] as [B C, 1, h, w]."""
    return x.reshape(x.shape[0] * x.shape[1], 1, *x.shape[2:])


def _spans(window: Window, axis: int) -> Array:
    """[kernel, 2]: for each tap of the axis, the outputs [first, last) that read inside the input."""
    stride, size = window.stride[axis], window.source[axis]
    offset = np.arange(window.kernel[axis]) * window.dilation[axis] - window.padding[axis]
    bounds = np.stack([-(offset // stride), -((offset - size) // stride)], axis=1)
    return np.clip(bounds, 0, window.result[axis])


def _walk(window: Window) -> tuple[Array, Array, Array]:
    """The spans of rows and columns, and the geometry, as the loops want them."""
    geometry = np.array([*window.stride, *window.dilation, *window.padding], np.int64)
    return _spans(window, 0), _spans(window, 1), geometry


# ---- convolution ----------------------------------------------------------------------------------------------------


@operation
def conv2d_forward(
    x: Array, weight: Array, bias: Array | None, y: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Call:
    """As reference.conv2d_forward."""
    window = contracts_conv.conv2d_forward(x, weight, bias, y, stride, padding, dilation, groups)
    taps_of = weight.reshape(len(weight), math.prod(weight.shape[1:]))
    offsets = np.zeros(len(weight), x.dtype) if bias is None else bias
    return loops_conv.conv2d_forward, (x, taps_of, offsets, y, *_walk(window), groups)


@operation
def conv2d_grad_input(
    dy: Array, weight: Array, dx: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int, outs: Ids, ins: Ids
) -> Call:
    """As reference.conv2d_grad_input."""
    window = contracts_conv.conv2d_grad_input(dy, weight, dx, stride, padding, dilation, groups, outs, ins)
    taps_of = weight.reshape(*weight.shape[:2], math.prod(window.kernel))
    chosen = all_or(outs, len(weight)), all_or(ins, dx.shape[1])
    return loops_conv.conv2d_grad_input, (dy, taps_of, dx, *_walk(window), *chosen)


@operation
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
) -> Call:
    """As reference.conv2d_grad_weight."""
    window = contracts_conv.conv2d_grad_weight(x, dy, dw, stride, padding, dilation, groups, outs, ins, in_channels)
    rows, columns = all_or(outs, dy.shape[1]), all_or(ins, x.shape[1])
    taps_of = dw.reshape(len(dw), math.prod(dw.shape[1:]))
    return _conv2d_grad_weight, (x, dy, taps_of, *_walk(window), rows, columns, in_channels, groups)


def _conv2d_grad_weight(
    x: Array,
    dy: Array,
    taps_of: Array,
    row_spans: Array,
    col_spans: Array,
    geometry: Array,
    rows: Array,
    columns: Array,
    in_channels: int,
    groups: int,
) -> None:
    if groups == 1:
        planes = np.tile(columns, (len(taps_of), 1))
    else:
        planes = planes_read(rows, dy.shape[1] // groups, in_channels // groups, x.shape[1] == in_channels)
    loops_conv.conv2d_grad_weight(x, dy, taps_of, row_spans, col_spans, geometry, rows, planes.astype(np.int64))


# ---- pooling --------------------------------------------------------------------------------------------------------


@operation
def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> Call:
    """As reference.maxpool_forward."""
    window = contracts_conv.maxpool_forward(x, y, codes, kernel, stride, padding)
    kept = np.empty(y.shape, np.uint8) if codes is None else codes.reshape(y.shape)
    return loops_pool.maxpool_forward, (_maps(x), _planes(y), _planes(kept), *_walk(window))


@operation
def maxpool_backward(
    dy: Array, codes: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, channels: Ids
) -> Call:
    """As reference.maxpool_backward."""
    window = contracts_conv.maxpool_backward(dy, codes, dx, kernel, stride, padding, channels)
    chosen, geometry = all_or(channels, dx.shape[1]), _walk(window)[2]
    return loops_pool.maxpool_backward, (dy, codes.reshape(dy.shape), dx, kernel[1], geometry, chosen)


@operation
def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> Call:
    """As reference.avgpool_forward."""
    window = contracts_conv.avgpool_forward(x, y, kernel, stride, padding)
    cells = pool_cells(window, count_include_pad, y.dtype)[0, 0]
    return loops_pool.avgpool_forward, (_maps(x), _planes(y), *_walk(window), cells)


@operation
def avgpool_backward(
    dy: Array, dx: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, channels: Ids
) -> Call:
    """As reference.avgpool_backward."""
    window = contracts_conv.avgpool_backward(dy, dx, kernel, stride, padding, channels)
    cells = pool_cells(window, count_include_pad, dy.dtype)[0, 0]
    return loops_pool.avgpool_backward, (dy, dx, *_walk(window), cells, all_or(channels, dx.shape[1]))

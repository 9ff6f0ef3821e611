"""Kernels for machines without a C++ compiler: checks arguments and prepares calls to what numba compiles.

Compiled, without fast-math: convolution and pooling (numba_conv.py), normalisation (numba_norm.py), ReLU, bias
gradients and SGD. Linear layers are BLAS products through numpy. The rest is reference.py's: gathers and scatters, the
loss, sums over little data. Contracts and checks are those of reference.py; a Program checks once, when it records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import contracts, loops
from .checks import Array, Ids
from .numba_conv import (
    avgpool_backward,
    avgpool_forward,
    conv2d_forward,
    conv2d_grad_input,
    conv2d_grad_weight,
    maxpool_backward,
    maxpool_forward,
)
from .numba_norm import batchnorm_backward, batchnorm_eval, batchnorm_forward, groupnorm_forward
from .numba_norm_relu import (
    batchnorm_relu_backward,
    batchnorm_relu_forward,
    groupnorm_relu_backward,
    groupnorm_relu_forward,
)
from .prepared import Call, all_or, operation, split_planes
from .program import Program as _RecordedCalls
from .reference import (
    add,
    clip_scale,
    fill_zero,
    gather_labels,
    gather_rows,
    groupnorm_backward,
    put_axes,
    put_flat,
    softmax_xent,
    sum_squares,
    take_axes,
    take_channels,
    take_flat,
)

__all__ = [
    "Program",
    "add",
    "avgpool_backward",
    "avgpool_forward",
    "batchnorm_backward",
    "batchnorm_eval",
    "batchnorm_forward",
    "batchnorm_relu_backward",
    "batchnorm_relu_forward",
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
    "groupnorm_relu_backward",
    "groupnorm_relu_forward",
    "linear_forward",
    "linear_grad_input",
    "linear_grad_weight",
    "linear_update",
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


class Program(_RecordedCalls):
    """A recorded list of calls to the operations of this module; those defined here are checked once, on recording."""

    def __init__(self) -> None:
        super().__init__(globals())

    def append(self, op: str, *args: Any) -> None:
        """Record one call. ValueError if there is no such operation or its arguments do not fit."""
        super().append(op, *args)
        operation, _ = self._calls[-1]
        prepare = getattr(operation, "__wrapped__", None)
        if prepare is not None:
            self._calls[-1] = prepare(*args)


def _planes(x: Array) -> Array:
    """[B, C, ...] as [B C, inner]."""
    return x.reshape(x.shape[0] * x.shape[1], math.prod(x.shape[2:]))


# ---- linear ---------------------------------------------------------------------------------------------------------


@operation
def linear_forward(x: Array, weight: Array, bias: Array | None, y: Array) -> Call:
    """As reference.linear_forward."""
    contracts.linear_forward(x, weight, bias, y)
    return _linear_forward, (x, weight.T, bias, y)


def _linear_forward(x: Array, columns: Array, bias: Array | None, y: Array) -> None:
    np.matmul(x, columns, out=y)
    if bias is not None:
        y += bias


@operation
def linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Ids, ins: Ids) -> Call:
    """As reference.linear_grad_input."""
    contracts.linear_grad_input(dy, weight, dx, outs, ins)
    return _linear_grad_input, (dy, weight, dx, outs, ins)


def _linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Ids, ins: Ids) -> None:
    sent, rows = (dy, weight) if outs is None else (dy[:, outs], weight[outs])
    if ins is None:
        np.matmul(sent, rows, out=dx)
    else:
        dx[:, ins] = sent @ rows[:, ins]


@operation
def linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Ids, ins: Ids) -> Call:
    """As reference.linear_grad_weight."""
    contracts.linear_grad_weight(x, dy, dw, outs, ins)
    return _linear_grad_weight, (x, dy, dw, outs, ins)


def _linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Ids, ins: Ids) -> None:
    sent, seen = dy if outs is None else dy[:, outs], x if ins is None else x[:, ins]
    np.matmul(sent.T, seen, out=dw)


@operation
def linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Ids, ins: Ids, cols: Ids) -> Call:
    """As reference.linear_update."""
    contracts.linear_update(x, dy, w, hyper, outs, ins, cols)
    return _linear_update, (x, dy, w, hyper, outs, ins, cols)


def _linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Ids, ins: Ids, cols: Ids) -> None:
    sent, seen = dy if outs is None else dy[:, outs], x if ins is None else x[:, ins]
    sgd(w[:, :, None], np.ascontiguousarray(sent.T @ seen), hyper, outs, cols)


@operation
def channel_sum(dy: Array, out: Array, outs: Ids) -> Call:
    """As reference.channel_sum."""
    contracts.channel_sum(dy, out, outs)
    return loops.channel_sum, (split_planes(dy), out, all_or(outs, dy.shape[1]))


# ---- elementwise and update -----------------------------------------------------------------------------------------


@operation
def relu_forward(x: Array, y: Array, bits: Array | None) -> Call:
    """As reference.relu_forward."""
    contracts.relu_forward(x, y, bits)
    planes = _planes(x)
    shape = len(planes), (planes.shape[1] + 7) // 8
    kept = np.empty((len(planes), 0), np.uint8) if bits is None else bits.reshape(shape)
    return loops.relu_forward, (planes, _planes(y), kept)


@operation
def relu_backward(dy: Array, bits: Array, dx: Array, channels: Ids) -> Call:
    """As reference.relu_backward."""
    contracts.relu_backward(dy, bits, dx, channels)
    blocks = split_planes(dy)
    kept = bits.reshape(*dy.shape[:2], (blocks.shape[2] + 7) // 8)
    return loops.relu_backward, (blocks, kept, split_planes(dx), all_or(channels, dy.shape[1]))


@operation
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
) -> Call:
    """As reference.sgd."""
    contracts.sgd(w, grad, hyper, rows, cols, scale, velocity, centre, linear)
    row_ids, col_ids = all_or(rows, w.shape[0]), all_or(cols, w.shape[1])
    if cols is None:  # whole rows are one run
        w, col_ids = w.reshape(len(w), 1, w.shape[1] * w.shape[2]), np.zeros(1, np.int32)
    block, none = (len(row_ids), len(col_ids) * w.shape[2]), np.empty((0, 0), w.dtype)
    extras = (none if extra is None else extra.reshape(block) for extra in (velocity, centre, linear))
    factor = np.ones(1, w.dtype) if scale is None else scale
    return loops.sgd, (w, grad.reshape(block), hyper, row_ids, col_ids, factor, *extras)

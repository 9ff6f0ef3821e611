"""The native backend: the signatures of every operation, over edgefl._core, and the library's own settings.

Not the contracts (csrc/edgefl.h) nor the checks (csrc/python/): each function passes its arguments on. Importing this
module raises ImportError where the extension was not built.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgefl import _core
from edgefl._core import Program, cap_isa, compiler, has_isa, isa, scratch_bytes, scratch_needed, set_threads, threads

__all__ = [
    "Program",
    "cap_isa",
    "compiler",
    "has_isa",
    "isa",
    "scratch_bytes",
    "scratch_needed",
    "set_threads",
    "threads",
]

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int32] | None  # sorted unique ids; None selects all
Pair = tuple[int, int]


def gather_rows(src: Array, index: Array, scale: float, shift: float, out: Array) -> None:
    _core.gather_rows(src, index, scale, shift, out)


def gather_labels(src: Array, index: Array, out: Array) -> None:
    _core.gather_labels(src, index, out)


def take_channels(x: Array, channels: Index, out: Array) -> None:
    _core.take_channels(x, channels, out)


def conv2d_forward(
    x: Array,
    weight: Array,
    bias: Array | None,
    y: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> None:
    _core.conv2d_forward(x, weight, bias, y, stride, padding, dilation, groups)


def conv2d_grad_input(
    dy: Array,
    weight: Array,
    dx: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index,
    ins: Index,
) -> None:
    _core.conv2d_grad_input(dy, weight, dx, stride, padding, dilation, groups, outs, ins)


def conv2d_grad_weight(
    x: Array,
    dy: Array,
    dw: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index,
    ins: Index,
    in_channels: int,
) -> None:
    _core.conv2d_grad_weight(x, dy, dw, stride, padding, dilation, groups, outs, ins, in_channels)


def linear_forward(x: Array, weight: Array, bias: Array | None, y: Array) -> None:
    _core.linear_forward(x, weight, bias, y)


def linear_grad_input(dy: Array, weight: Array, dx: Array, outs: Index, ins: Index) -> None:
    _core.linear_grad_input(dy, weight, dx, outs, ins)


def linear_grad_weight(x: Array, dy: Array, dw: Array, outs: Index, ins: Index) -> None:
    _core.linear_grad_weight(x, dy, dw, outs, ins)


def linear_update(x: Array, dy: Array, w: Array, hyper: Array, outs: Index, ins: Index, cols: Index) -> None:
    _core.linear_update(x, dy, w, hyper, outs, ins, cols)


def channel_sum(dy: Array, out: Array, outs: Index) -> None:
    _core.channel_sum(dy, out, outs)


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
    _core.batchnorm_forward(x, weight, bias, running_mean, running_var, y, xhat, inv_std, eps, momentum)


def batchnorm_eval(
    x: Array,
    weight: Array,
    bias: Array,
    running_mean: Array,
    running_var: Array,
    y: Array,
    eps: float,
) -> None:
    _core.batchnorm_eval(x, weight, bias, running_mean, running_var, y, eps)


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
    _core.batchnorm_backward(dy, xhat, weight, inv_std, dx, dweight, dbias, channels, outs)


def groupnorm_forward(
    x: Array,
    weight: Array,
    bias: Array,
    y: Array,
    xhat: Array | None,
    inv_std: Array,
    groups: int,
    eps: float,
) -> None:
    _core.groupnorm_forward(x, weight, bias, y, xhat, inv_std, groups, eps)


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
    _core.groupnorm_backward(dy, xhat, weight, inv_std, dx, dweight, dbias, groups, groups_needed, outs)


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
    _core.batchnorm_relu_forward(x, weight, bias, running_mean, running_var, y, mean, inv_std, eps, momentum)


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
) -> None:
    _core.batchnorm_relu_backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, channels, outs)


def groupnorm_relu_forward(
    x: Array, weight: Array, bias: Array, y: Array, mean: Array, inv_std: Array, groups: int, eps: float
) -> None:
    _core.groupnorm_relu_forward(x, weight, bias, y, mean, inv_std, groups, eps)


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
    _core.groupnorm_relu_backward(dy, x, weight, bias, mean, inv_std, dx, dweight, dbias, groups, groups_needed, outs)


def relu_forward(x: Array, y: Array, bits: Array | None) -> None:
    _core.relu_forward(x, y, bits)


def relu_backward(dy: Array, bits: Array, dx: Array, channels: Index) -> None:
    _core.relu_backward(dy, bits, dx, channels)


def add(a: Array, b: Array, y: Array) -> None:
    _core.add(a, b, y)


def maxpool_forward(x: Array, y: Array, codes: Array | None, kernel: Pair, stride: Pair, padding: Pair) -> None:
    _core.maxpool_forward(x, y, codes, kernel, stride, padding)


def maxpool_backward(
    dy: Array,
    codes: Array,
    dx: Array,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    channels: Index,
) -> None:
    _core.maxpool_backward(dy, codes, dx, kernel, stride, padding, channels)


def avgpool_forward(x: Array, y: Array, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    _core.avgpool_forward(x, y, kernel, stride, padding, count_include_pad)


def avgpool_backward(
    dy: Array,
    dx: Array,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
    channels: Index,
) -> None:
    _core.avgpool_backward(dy, dx, kernel, stride, padding, count_include_pad, channels)


def softmax_xent(logits: Array, labels: Array, dlogits: Array | None, loss: Array, correct: Array) -> None:
    _core.softmax_xent(logits, labels, dlogits, loss, correct)


def sum_squares(x: Array, total: Array) -> None:
    _core.sum_squares(x, total)


def clip_scale(total: Array, max_norm: float, scale: Array) -> None:
    _core.clip_scale(total, max_norm, scale)


def sgd(
    w: Array,
    grad: Array,
    hyper: Array,
    rows: Index,
    cols: Index,
    scale: Array | None = None,
    velocity: Array | None = None,
    centre: Array | None = None,
    linear: Array | None = None,
) -> None:
    _core.sgd(w, grad, hyper, rows, cols, scale, velocity, centre, linear)


def take_axes(w: Array, rows: Index, cols: Index, values: Array) -> None:
    _core.take_axes(w, rows, cols, values)


def put_axes(w: Array, rows: Index, cols: Index, values: Array) -> None:
    _core.put_axes(w, rows, cols, values)


def take_flat(w: Array, ids: Array, values: Array) -> None:
    _core.take_flat(w, ids, values)


def put_flat(w: Array, ids: Array, values: Array) -> None:
    _core.put_flat(w, ids, values)


def fill_zero(x: Array) -> None:
    _core.fill_zero(x)

"""The floating point operations of a schedule's products: two for each multiply-accumulate that is asked for.

They are counted from the calls themselves, so the count matches what runs, whatever a method trains. Layers with frozen
neurons count the active channels. A masked layer counts the coordinates of its mask where it runs without its zeros,
and all coordinates where it runs dense. Gradients below the first layer do not occur. As in the papers, operations with
little work per value (norms, ReLUs, pools, the loss, updates) are not counted. A kernel that saves multiplications,
such as Winograd's, is counted like a plain kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from edgefl.kernels.table import FAMILIES
from edgefl.learning.lowering.channel_sets import count
from edgefl.learning.lowering.schedule import Codes, Index, KernelCall, Param, Schedule, Structure, Tensor

Pair = tuple[int, int]


def flops(schedule: Schedule) -> int:
    """Return the operations of one pass over the schedule's batch.

    Raises ValueError that names an operation without a rule for its products.
    """
    return 2 * sum(map(macs, schedule.calls))


def macs(call: KernelCall) -> int:
    if call.op in PRODUCTS:
        return PRODUCTS[call.op](*call.args)
    if call.op not in WITHOUT:
        raise ValueError(f"{call.op} has no count of its multiply-accumulates; expected one in {__name__}")
    return 0


def _conv2d_forward(x: Tensor, weight: Param, bias: Param | None, y: Tensor, *geometry: object) -> int:
    return _size(y) * _size(weight) // weight.shape[0]


def _conv2d_grad_input(
    dy: Tensor,
    weight: Param,
    dx: Tensor,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: Index = None,
    ins: Index = None,
) -> int:
    kernel = weight.shape[2] * weight.shape[3]
    pairs = np.dot(_by_group(outs, dy.shape[1], groups), _by_group(ins, dx.shape[1], groups))
    return _positions(dy) * kernel * int(pairs)


def _conv2d_grad_weight(x: Tensor, dy: Tensor, dw: Tensor, *geometry: object) -> int:
    return _positions(dy) * _size(dw)


def _linear_forward(x: Tensor, weight: Param, bias: Param | None, y: Tensor) -> int:
    return _size(y) * x.shape[1]


def _linear_grad_input(dy: Tensor, weight: Param, dx: Tensor, outs: Index = None, ins: Index = None) -> int:
    return dy.shape[0] * count(outs, dy.shape[1]) * count(ins, dx.shape[1])


def _linear_grad_weight(x: Tensor, dy: Tensor, dw: Tensor, *ids: Index) -> int:
    return dy.shape[0] * _size(dw)


def _linear_update(
    x: Tensor, dy: Tensor, w: Param, hyper: object, outs: Index = None, ins: Index = None, cols: Index = None
) -> int:
    return dy.shape[0] * count(outs, dy.shape[1]) * count(ins, x.shape[1])


def _sparse_forward(
    x: Tensor, structure: Structure, values: Param, bias: Param | None, y: Tensor, *geometry: Pair
) -> int:
    return _positions(y) * _size(values)


def _sparse_grad_input(dy: Tensor, structure: Structure, values: Param | Tensor, dx: Tensor, *geometry: Pair) -> int:
    return _positions(dy) * _size(values)


def _sparse_grad_weight(x: Tensor, dy: Tensor, structure: Structure, gradients: Tensor, *geometry: Pair) -> int:
    return _positions(dy) * _size(gradients)


def _recurrence(weight: Param, gates: Tensor) -> int:
    return _size(gates) * weight.shape[1]


def _attention_forward(qkv: Tensor, heads: int, causal: bool, y: Tensor, shares: Tensor | None) -> int:
    return 2 * _size(y) * _keys(y.shape[2], causal)


def _attention_backward(
    dy: Tensor, qkv: Tensor, shares: Tensor, heads: int, causal: bool, dqkv: Tensor, heads_needed: Index = None
) -> int:
    return 4 * _size(dy) * count(heads_needed, heads) // heads * _keys(dy.shape[2], causal)


def _sdpa_forward(qkv: Tensor, *args: Any) -> int:
    return 2 * _size(args[-2]) * _keys(qkv.shape[2], args[5])


def _sdpa_backward(dy: Tensor, *args: Any) -> int:
    """Count five products: the scores are computed again."""
    kv_heads, needed = args[5], args[-1]
    return 5 * _size(dy) * count(needed, kv_heads) // kv_heads * _keys(dy.shape[2], args[7])


def _keys(positions: int, causal: bool) -> int:
    """Return the mean number of keys that a position attends to, rounded up."""
    return positions // 2 + 1 if causal else positions


def _size(of: Tensor | Param) -> int:
    return math.prod(of.shape)


def _pointwise_grad_input(
    dy: Tensor, codes: Codes, row_scale: object, col_scale: object, dx: Tensor, outs: Index = None, ins: Index = None
) -> int:
    rows, cols = (size if ids is None else len(ids) for ids, size in zip((outs, ins), codes.shape[:2], strict=True))
    return _positions(dx) * rows * cols


def _positions(result: Tensor) -> int:
    """Return the number of examples times the number of positions in a channel's plane."""
    return _size(result) // max(result.shape[1], 1)


def _by_group(ids: Index, channels: int, groups: int) -> np.ndarray:
    """Return the number of selected channels in each of the equal groups that the channels form."""
    chosen = np.arange(channels) if ids is None else ids
    return np.bincount(chosen // (channels // groups), minlength=groups)


PRODUCTS: dict[str, Callable[..., int]] = {
    "conv2d_forward": _conv2d_forward,
    "conv2d_grad_input": _conv2d_grad_input,
    "conv2d_grad_weight": _conv2d_grad_weight,
    "pointwise_forward": lambda x, codes, row_scale, col_scale, bias, y: _size(y) * codes.shape[1],
    "pointwise_grad_input": _pointwise_grad_input,
    "conv2d_int8": lambda x, codes, *rest: _size(rest[2]) * math.prod(codes.shape[1:]),
    "linear_forward": _linear_forward,
    "linear_grad_input": _linear_grad_input,
    "linear_grad_weight": _linear_grad_weight,
    "linear_update": _linear_update,
    "rnn_forward": lambda gates, weight, *rest: _recurrence(weight, gates),
    "rnn_backward": lambda dy, gates, weight, *rest: _recurrence(weight, gates),
    "gru_forward": lambda gates, weight, *rest: _recurrence(weight, gates),
    "gru_backward": lambda dy, gates, hidden, states, weight, *rest: _recurrence(weight, gates),
    "lstm_forward": lambda gates, weight, *rest: _recurrence(weight, gates),
    "lstm_backward": lambda dy, gates, cells, weight, *rest: _recurrence(weight, gates),
    "attention_forward": _attention_forward,
    "attention_backward": _attention_backward,
    "sdpa_forward": _sdpa_forward,
    "sdpa_backward": _sdpa_backward,
    "sparse_conv2d_forward": _sparse_forward,
    "sparse_conv2d_grad_input": _sparse_grad_input,
    "sparse_conv2d_grad_weight": _sparse_grad_weight,
    "sparse_linear_forward": _sparse_forward,
    "sparse_linear_grad_input": _sparse_grad_input,
    "sparse_linear_grad_weight": _sparse_grad_weight,
}
"""Functions that count an operation's multiply-accumulates, by operation.

They take the arguments of a call in the order of the table of operations.
"""

ELEMENTWISE = (
    "batch",
    "norm",
    "rms_norm",
    "rotary",
    "pool",
    "elementwise",
    "activation",
    "arrange",
    "dropout",
    "loss",
    "update",
    "growth",
    "parameters",
    "mask",
    "narrow",
)
WITHOUT = {row.name for family in ELEMENTWISE for row in FAMILIES[family]} | {
    "channel_sum",
    "to_steps",
    "from_steps",
    "sparse_conv2d_build",
    "sparse_linear_build",
}
"""The names of the operations that multiply no matrices."""

"""The operations of Transformers in ONNX's operators: rows of the table in onnx_nodes.py.

Opset 17 has no attention, no RMSNorm and no rotary positions, so they are written as products, means and softmax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgefl.models.graph.operations import Attention, Operation, RMSNorm, Rotary
from edgefl.study.export.onnx_file import Writer


def _attention(op: Attention, inputs: list[str], to: Writer) -> str:
    positions, groups = to.input_shape[-1], op.num_heads // op.kv_heads
    heads = to.node("Reshape", *inputs, to.constant("heads", [0, op.rows // op.head_dim, op.head_dim, positions]))
    counts = (op.num_heads, op.kv_heads, op.kv_heads)
    q, k, v = (_heads(heads, at, sum(counts[:at]), counts[at], groups if at else 1, to) for at in range(3))
    scores = to.node("MatMul", to.node("Transpose", k, perm=[0, 1, 3, 2]), q)  # [B, heads, keys, queries]
    scores = to.node("Mul", scores, to.constant("scale", op.scale))
    if op.bias:
        shared = op.num_heads // op.bias[0]
        bias = to.parameter("bias")
        bias = bias if op.bias[0] == 1 else _repeated(bias, np.repeat(np.arange(op.bias[0]), shared), 0, "masks", to)
        scores = to.node("Add", scores, bias)
    if op.causal:
        behind = np.arange(positions) - np.arange(positions)[:, None]  # query minus key
        left_out = (behind < 0) | (behind >= (op.window or positions))
        scores = to.node("Add", scores, to.constant("left_out", np.where(left_out, -np.inf, 0.0)))
    found = to.node("MatMul", v, to.node("Softmax", scores, axis=2))
    return to.node("Reshape", found, to.constant("result", [0, *op.output(to.input_shape)]))


def _heads(heads: str, part: int, start: int, count: int, times: int, to: Writer) -> str:
    return _repeated(heads, np.repeat(np.arange(start, start + count), times), 1, f"part{part}", to)


def _repeated(value: str, ids: np.ndarray, axis: int, name: str, to: Writer) -> str:
    return to.node("Gather", value, to.constant(name, ids), axis=axis)


def _rms_norm(op: RMSNorm, inputs: list[str], to: Writer) -> str:
    channels, *places = to.input_shape
    width = op.num_features
    runs = to.node("Reshape", *inputs, to.constant("runs", [0, channels // width, width, *places]))
    squares = to.node("ReduceMean", to.node("Mul", runs, runs), axes=[2], keepdims=1)
    root = to.node("Sqrt", to.node("Add", squares, to.constant("eps", op.eps)))
    gain = to.parameter("weight")
    gain = to.node("Add", gain, to.constant("offset", op.offset)) if op.offset else gain
    gain = to.node("Reshape", gain, to.constant("gain", [width, *(1 for _ in places)]))
    normal = to.node("Mul", to.node("Div", runs, root), gain)
    return to.node("Reshape", normal, to.constant("channels", [0, *to.input_shape]))


def _rotary(op: Rotary, inputs: list[str], to: Writer) -> str:
    half = op.head_dim // 2
    runs = to.node("Reshape", *inputs, to.constant("runs", [0, -1, op.head_dim, op.positions]))
    order = np.concatenate((np.arange(half, op.head_dim), np.arange(half)))
    signs = np.where(np.arange(op.head_dim) < half, -1.0, 1.0)[:, None]
    turned = to.node("Mul", to.node("Gather", runs, to.constant("order", order), axis=2), to.constant("signs", signs))
    straight = to.node("Mul", runs, to.parameter("cos"))
    found = to.node("Add", straight, to.node("Mul", turned, to.parameter("sin")))
    return to.node("Reshape", found, to.constant("channels", [0, *to.input_shape]))


NODES: dict[type[Operation], Callable[[Any, list[str], Writer], str]] = {
    Attention: _attention,
    RMSNorm: _rms_norm,
    Rotary: _rotary,
}
"""Functions that write an operation, by the operation."""

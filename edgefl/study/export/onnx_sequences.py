"""Recurrent layers and attention in ONNX's operators: rows of the table in onnx_nodes.py.

Sequences of the graph are [features, steps]. ONNX has the gates in another order, z r h of a GRU and i o f c of an
LSTM, so weights and biases are constants here. ONNX has no attention before opset 23, so attention is written as
products by heads, with a softmax between them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgefl.models.graph.operations import GRU, LSTM, RNN, Operation, Recurrent, SelfAttention, Shape
from edgefl.study.export.onnx_file import Writer

ORDERS: dict[type[Recurrent], tuple[int, ...]] = {RNN: (0,), GRU: (1, 0, 2), LSTM: (0, 3, 1, 2)}
"""The positions in torch of ONNX's gates, in ONNX's order, by operation."""


def recurrent(op: Recurrent, inputs: list[str], to: Writer) -> str:
    steps = to.node("Transpose", _sequence(op, inputs, to), perm=[2, 0, 1])
    weights = (to.constant(name, _gates(op, to, name)[None]) for name in ("weight_ih_l0", "weight_hh_l0"))
    biases = [np.concatenate([_gates(op, to, name) for name in ("bias_ih_l0", "bias_hh_l0")])] if op.bias else []
    settings: dict[str, Any] = {"linear_before_reset": 1} if isinstance(op, GRU) else {}
    if isinstance(op, RNN):
        settings = {"activations": ["Relu" if op.relu else "Tanh"]}
    bias = [to.constant("bias", value[None]) for value in biases]
    states = to.node(op.title, steps, *weights, *bias, hidden_size=op.hidden_size, **settings)
    sequence = to.node("Transpose", to.node("Squeeze", states, to.constant("one", [1])), perm=[1, 2, 0])
    return _as_it_came(op, sequence, to)


def _gates(op: Recurrent, to: Writer, name: str) -> np.ndarray:
    parts = np.split(to.value(name), op.gates)
    return np.concatenate([parts[position] for position in ORDERS[type(op)]])


def attention(op: SelfAttention, inputs: list[str], to: Writer) -> str:
    positions, rows = to.input_shape[-1], 3 * op.features
    weight = to.parameter("in_proj_weight", (rows, op.in_features, 1))
    bias = [to.parameter("in_proj_bias")] if op.bias else []
    qkv = to.node("Conv", _sequence(op, inputs, to), weight, *bias, kernel_shape=[1])
    heads = to.node("Reshape", qkv, to.constant("heads", [0, 3, op.num_heads, op.head_dim, positions]))
    q, k, v = (to.node("Gather", heads, to.constant(f"part{part}", part), axis=1) for part in range(3))
    scores = to.node("MatMul", to.node("Transpose", q, perm=[0, 1, 3, 2]), k)
    scores = to.node("Mul", scores, to.constant("scale", 1 / math.sqrt(op.head_dim)))
    if op.causal:
        later = np.triu(np.full((positions, positions), -np.inf), k=1)
        scores = to.node("Add", scores, to.constant("later", later))
    shares = to.node("Transpose", to.node("Softmax", scores, axis=-1), perm=[0, 1, 3, 2])
    sequence = to.node("Reshape", to.node("MatMul", v, shares), to.constant("line", [0, op.features, positions]))
    return _as_it_came(op, sequence, to)


def _sequence(op: Operation, inputs: list[str], to: Writer) -> str:
    """Return the input as a sequence. The input may be a plane with a single row, which becomes the sequence."""
    features, *rest = to.input_shape
    if len(rest) == 1:
        return inputs[0]
    return to.node("Reshape", inputs[0], to.constant("row", [0, features, rest[-1]]))


def _as_it_came(op: Operation, sequence: str, to: Writer) -> str:
    shape: Shape = op.output(to.input_shape)
    return sequence if len(shape) == 2 else to.node("Reshape", sequence, to.constant("plane", [0, *shape]))

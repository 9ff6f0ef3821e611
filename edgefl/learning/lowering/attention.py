"""The lowering of self-attention, both passes: a 1 x 1 convolution makes queries, keys and values, then each head runs
by itself.

Saved for the backward pass are the active channels of the input, or the whole input, then queries, keys and values, and
the shares of every head.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.learning.lowering.channel_sets import NONE, is_empty
from edgefl.learning.lowering.gradient_needs import joined_rows
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients, trained_block
from edgefl.learning.lowering.quantized_weights import ONE_CELL
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.saved_inputs import save_input
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Operation, SelfAttention


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x, y = node.op, recorder.source(node), recorder.result(node)
    assert isinstance(op, SelfAttention)
    batch, positions = y.shape[0], y.shape[-1]
    qkv, shares = recorder.new((batch, 3 * op.features, 1, positions)), None
    bias = recorder.param(node, "in_proj_bias") if op.bias else None
    recorder.call("conv2d_forward", x, _weight(recorder, node), bias, qkv, *ONE_CELL)
    save_input(recorder, readers, node, x)
    if recorder.needed(node.name):
        shares = recorder.new((batch, op.num_heads, positions, positions))
        recorder.extras |= {(node.name, "qkv"): qkv, (node.name, "shares"): shares}
    recorder.call("attention_forward", _sequence(qkv), op.num_heads, op.causal, _sequence(y), shares)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below = node.op, node.inputs[0]
    assert isinstance(op, SelfAttention)
    qkv, shares = (recorder.extras[node.name, what] for what in ("qkv", "shares"))
    dqkv, heads = recorder.like(qkv), recorder.scope.active.groups[node.name]
    settings = (op.num_heads, op.causal)
    recorder.call("attention_backward", _sequence(dy), _sequence(qkv), shares, *settings, _sequence(dqkv), heads)
    gradients = _parameter_gradients(recorder, node, dqkv)
    if recorder.needed(below):
        dx = recorder.like(recorder.read(below, node))
        outs = None if heads is None else joined_rows(node, recorder.scope.active.blocks)
        ins = recorder.channels_needed(below)
        recorder.call("conv2d_grad_input", dqkv, _weight(recorder, node), dx, *ONE_CELL, outs, ins)
        output_grads.give(below, dx)
    return gradients


def _parameter_gradients(recorder: Recorder, node: Node, dqkv: Tensor) -> Gradients:
    op, gradients = node.op, Gradients()
    assert isinstance(op, SelfAttention)
    if node.name in recorder.inputs:
        x, ids = recorder.inputs[node.name]
        dw = trained_block(recorder, node, "in_proj_weight")
        cells = dw.values.view(*dw.values.shape, 1, 1)
        recorder.call("conv2d_grad_weight", x, dqkv, cells, *ONE_CELL, dw.rows, ids, op.in_features)
        gradients[node.full_name("in_proj_weight")] = dw
    if op.bias and not is_empty(recorder.scope.active.blocks.get(node.full_name("in_proj_bias"), (NONE, NONE))[0]):
        db = trained_block(recorder, node, "in_proj_bias")
        recorder.call("channel_sum", dqkv, db.values, db.rows)
        gradients[node.full_name("in_proj_bias")] = db
    return gradients


def _weight(recorder: Recorder, node: Node) -> Param | Tensor:
    weight = recorder.param(node, "in_proj_weight")
    return weight.view(*weight.shape, 1, 1)


def _sequence(x: Tensor) -> Tensor:
    """Return [B, C, 1, T] without its row axis."""
    return x.view(*x.shape[:2], x.shape[-1])


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {SelfAttention: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    SelfAttention: _backward
}

"""The lowering of Attention on given queries, keys and values, both passes.

The backward pass reads the input and, for each query, the logarithm of the sum of its softmax. It computes the weights
of the values again, and the random words of a dropout, too (dropout.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.dropout import threshold
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients, trained_block
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Param, Slot, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Attention, Operation


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, qkv, y = node.op, _sequence(recorder.source(node)), recorder.result(node)
    assert isinstance(op, Attention)
    lse = None
    if recorder.needed(node.name):
        lse = recorder.new((y.shape[0], op.num_heads, y.shape[-1]))
        recorder.extras[node.name, "lse"] = lse
    recorder.call("sdpa_forward", qkv, *_bias_and_state(recorder, node), *_settings(recorder, node), _sequence(y), lse)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below, found = node.op, node.inputs[0], Gradients()
    assert isinstance(op, Attention)
    qkv, lse = recorder.source(node), recorder.extras[node.name, "lse"]
    dqkv, dbias = recorder.like(qkv), None
    if op.bias and node.full_name("bias") in recorder.scope.active.blocks:
        block = trained_block(recorder, node, "bias")
        found[node.full_name("bias")], dbias = block, block.values
    heads = recorder.scope.active.groups[node.name]
    read = (_sequence(dy), _sequence(qkv), *_bias_and_state(recorder, node), lse)
    recorder.call("sdpa_backward", *read, *_settings(recorder, node), _sequence(dqkv), dbias, heads)
    if not is_empty(recorder.channels_needed(below)):
        output_grads.give(below, dqkv)
    return found


def _bias_and_state(recorder: Recorder, node: Node) -> tuple[Param | Tensor | None, Slot | None]:
    assert isinstance(node.op, Attention)
    bias = recorder.param(node, "bias") if node.op.bias else None
    return bias, Slot("dropout") if recorder.scope.drops_at(node) else None


def _settings(recorder: Recorder, node: Node) -> tuple[Any, ...]:
    """Return the arguments of both calls from heads to keep_scale."""
    op = node.op
    assert isinstance(op, Attention)
    number = [each.name for each in recorder.scope.graph.nodes].index(node.name)
    masks = op.bias[0] if op.bias else 1
    heads = (op.num_heads, op.kv_heads, masks, op.causal, op.window)
    return (*heads, op.scale, number, threshold(op.p), 1 / (1 - op.p))


def _sequence(x: Tensor) -> Tensor:
    """Return [B, C, 1, T] without its row axis."""
    return x.view(*x.shape[:2], x.shape[-1])


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {Attention: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Attention: _backward
}

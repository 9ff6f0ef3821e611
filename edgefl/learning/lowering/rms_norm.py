"""The lowering of RMSNorm, both passes. The backward pass reads the input and the inverse root mean squares."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.lowering.channel_sets import count, is_empty
from edgefl.learning.lowering.gradient_needs import joined_rows
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Tensor, TrainedBlock
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Operation, RMSNorm


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x = node.op, recorder.source(node)
    assert isinstance(op, RMSNorm)
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    positions = math.prod(x.shape[2:])
    inv_rms = recorder.new((x.shape[0], x.shape[1] // op.num_features, positions))
    if recorder.needed(node.name):
        recorder.extras[node.name, "inv_rms"] = inv_rms
    weight = recorder.param(node, "weight")
    recorder.call("rmsnorm_forward", _by_position(x), weight, _by_position(y), inv_rms, op.offset, op.eps)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, x = node.op, recorder.source(node)
    assert isinstance(op, RMSNorm)
    rows = joined_rows(node, recorder.scope.active.blocks)
    block = TrainedBlock(rows, None, recorder.new((count(rows, op.num_features),)))
    dx = output_grads.target(dy)
    read = (_by_position(dy), _by_position(x), recorder.param(node, "weight"), recorder.extras[node.name, "inv_rms"])
    recorder.call("rmsnorm_backward", *read, op.offset, _by_position(dx), block.values, rows)
    output_grads.give(node.inputs[0], dx)
    return {} if is_empty(rows) else {node.full_name("weight"): block}


def _by_position(x: Tensor) -> Tensor:
    """Return x as [B, channels, positions]."""
    return x.view(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {RMSNorm: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    RMSNorm: _backward
}

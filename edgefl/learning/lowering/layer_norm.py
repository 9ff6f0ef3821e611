"""The lowering of LayerNorm, both passes: a group norm of one group, whose channels are the normalised values.

A LayerNorm over the channels of many positions has kernels of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.lowering.channel_sets import count, is_empty, members
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Param, Tensor, TrainedBlock
from edgefl.models.graph import Node
from edgefl.models.graph.operations import LayerNorm, Operation


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, LayerNorm)
    x, free = recorder.source(node), readers.is_free(node.inputs[0], node)
    inv_std, xhat = recorder.new((x.shape[0], _positions(node, x))), None
    if recorder.needed(node.name):
        y, xhat = recorder.result(node), x if free else recorder.result(node)
        recorder.extras |= {(node.name, "xhat"): xhat, (node.name, "inv_std"): inv_std}
    else:
        y = x if free else recorder.result(node)
    params = (_flat(recorder, node, "weight"), _flat(recorder, node, "bias"))
    if _positions(node, x) > 1:
        kept = None if xhat is None else _by_position(xhat)
        recorder.call("layernorm_forward", _by_position(x), *params, _by_position(y), kept, inv_std, node.op.eps)
    else:
        kept = None if xhat is None else _values(xhat)
        recorder.call("groupnorm_forward", _values(x), *params, _values(y), kept, inv_std, 1, node.op.eps)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    weight, bias = _block(recorder, node, "weight"), _block(recorder, node, "bias")
    dx, below = output_grads.target(dy), node.inputs[0]
    xhat, inv_std = recorder.extras[node.name, "xhat"], recorder.extras[node.name, "inv_std"]
    gain, sums = _flat(recorder, node, "weight"), (_sequence(weight.values), _sequence(bias.values))
    if _positions(node, dy) > 1:
        read = (_by_position(dy), _by_position(xhat), gain, inv_std)
        recorder.call("layernorm_backward", *read, _by_position(dx), *sums, weight.rows)
    else:
        outs = members(weight.rows, math.prod(weight.values.shape[1:]))
        recorder.call(
            "groupnorm_backward", _values(dy), _values(xhat), gain, inv_std, _values(dx), *sums, 1, None, outs
        )
    output_grads.give(below, dx)
    return {} if is_empty(weight.rows) else {node.full_name("weight"): weight, node.full_name("bias"): bias}


def _block(recorder: Recorder, node: Node, name: str) -> TrainedBlock:
    """Return the trained block of a parameter. Only axis 0 is selected, and every other axis is whole."""
    full = node.full_name(name)
    rows = own_rows(node, recorder.scope.active.blocks)
    known = recorder.scope.spec.params.get(full)
    size, *rest = recorder.param(node, name).shape if known is None else known.shape
    return TrainedBlock(rows, None, recorder.new((count(rows, size), *rest)))


def _positions(node: Node, x: Tensor) -> int:
    """Return the number of positions that are normalised, each by itself."""
    assert isinstance(node.op, LayerNorm)
    return math.prod(x.shape[2:]) if len(node.op.normalized_shape) == 1 else 1


def _by_position(x: Tensor) -> Tensor:
    """Return x as [B, channels, positions]."""
    return x.view(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _values(x: Tensor) -> Tensor:
    """Return x as [B, values of an example]."""
    return x.view(x.shape[0], math.prod(x.shape[1:]))


def _sequence(x: Tensor) -> Tensor:
    return x.view(math.prod(x.shape))


def _flat(recorder: Recorder, node: Node, name: str) -> Param | Tensor:
    full = recorder.param(node, name)
    return full.view(math.prod(full.shape))


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {LayerNorm: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    LayerNorm: _backward
}

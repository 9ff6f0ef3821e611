"""Lowers LayerNorm, both passes: a group norm of one group whose channels are the values that it normalises."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.graph import Node
from edgefl.graph.operations import LayerNorm, Operation
from edgefl.learners.lowering.channels import NONE, count, is_empty, members
from edgefl.learners.lowering.recorder import Readers, Recorder
from edgefl.learners.lowering.schedule import Param, Tensor, TrainedBlock
from edgefl.learners.lowering.signals import Gradients, Signals


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, LayerNorm)
    x, free = recorder.source(node), readers.is_free(node.inputs[0], node)
    inv_std, xhat = recorder.new((x.shape[0], 1)), None
    if recorder.needed(node.name):
        y, xhat = recorder.result(node), x if free else recorder.result(node)
        recorder.extras |= {(node.name, "xhat"): xhat, (node.name, "inv_std"): inv_std}
    else:
        y = x if free else recorder.result(node)
    kept = None if xhat is None else _values(xhat)
    arguments = (_flat(recorder, node, "weight"), _flat(recorder, node, "bias"), _values(y), kept, inv_std)
    recorder.call("groupnorm_forward", _values(x), *arguments, 1, node.op.eps)
    return y


def _backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    weight, bias = _block(recorder, node, "weight"), _block(recorder, node, "bias")
    dx, below = signals.target(dy), node.inputs[0]
    read = (_values(recorder.extras[node.name, "xhat"]), _flat(recorder, node, "weight"))
    written = (_values(dx), _line(weight.values), _line(bias.values))
    outs = members(weight.rows, math.prod(weight.values.shape[1:]))
    recorder.call(
        "groupnorm_backward", _values(dy), *read, recorder.extras[node.name, "inv_std"], *written, 1, None, outs
    )
    signals.give(below, dx)
    return {} if is_empty(weight.rows) else {f"{node.name}.weight": weight, f"{node.name}.bias": bias}


def _block(recorder: Recorder, node: Node, name: str) -> TrainedBlock:
    """The trained block of a parameter, which has no columns: every other axis is whole."""
    full = f"{node.name}.{name}"
    rows, _ = recorder.scope.active.blocks.get(full, (NONE, NONE))
    size, *rest = recorder.scope.spec.params[full].shape
    return TrainedBlock(rows, None, recorder.new((count(rows, size), *rest)))


def _values(x: Tensor) -> Tensor:
    """[B, values of an example]."""
    return x.view(x.shape[0], math.prod(x.shape[1:]))


def _line(x: Tensor) -> Tensor:
    return x.view(math.prod(x.shape))


def _flat(recorder: Recorder, node: Node, name: str) -> Param:
    full, shape = recorder.param(node, name)
    return Param(full, (math.prod(shape),))


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {LayerNorm: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, Signals, Node, Tensor], Gradients]] = {LayerNorm: _backward}

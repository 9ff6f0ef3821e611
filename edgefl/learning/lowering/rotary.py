"""The lowering of rotary positions, both passes. The gradient is rotated back, so nothing is saved."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import Operation, Rotary


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x = recorder.source(node)
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    _rotate(recorder, node, x, False, y)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    if recorder.needed(node.inputs[0]):
        dx = output_grads.target(dy)
        _rotate(recorder, node, dy, True, dx)
        output_grads.give(node.inputs[0], dx)
    return {}


def _rotate(recorder: Recorder, node: Node, x: Tensor, back: bool, y: Tensor) -> None:
    tables = (recorder.param(node, name) for name in ("cos", "sin"))
    recorder.call("rotary", _by_position(x), *tables, back, _by_position(y))


def _by_position(x: Tensor) -> Tensor:
    """Return x as [B, channels, positions]."""
    return x.view(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {Rotary: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Rotary: _backward
}

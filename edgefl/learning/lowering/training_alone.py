"""The lowering of Scaler and GaussianNoise, both passes.

Noise follows from (key, step, example, node, position), as dropout does (lowering/dropout.py): two uniform numbers of
the stream make a normal number (Box and Muller, 1958). It is computed in the forward pass and kept. It has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.learning.lowering.elementwise import evaluate
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Slot, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.expression_gradient import forward
from edgefl.models.graph.operations import GaussianNoise, Operation, Scaler

NORMAL = "sqrt(log(a) * (-2)) * cos(b * 6.283185307179586)"
ANGLES = 1 << 30  # added to the number of a node for the second stream, above all numbers of nodes


def _scale(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, Scaler)
    x = recorder.source(node)
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    factor = node.op.factor if recorder.scope.trains else 1.0
    evaluate(recorder, forward(f"a * {factor!r}"), [x], y)
    return y


def _scale_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, Scaler)
    dx = output_grads.target(dy)
    evaluate(recorder, forward(f"a * {node.op.factor!r}"), [dy], dx)
    output_grads.give(node.inputs[0], dx)
    return {}


def _noise(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, GaussianNoise)
    y = recorder.result(node)
    if not (recorder.scope.drops or (node.op.in_evaluation and not recorder.scope.trains)):
        recorder.call("fill_zero", y)
        return y
    number = [each.name for each in recorder.scope.graph.nodes].index(node.name)
    angles = recorder.like(y)
    recorder.call("uniform", y, Slot("dropout"), number)
    recorder.call("uniform", angles, Slot("dropout"), number + ANGLES)
    evaluate(recorder, forward(NORMAL), [y, angles], y)
    return y


def _no_gradient(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    return {}


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {Scaler: _scale, GaussianNoise: _noise}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Scaler: _scale_backward,
    GaussianNoise: _no_gradient,
}

"""The lowering of interpolation, of cells that continue a plane, and of reversed positions, both passes.

The backward pass reads the gradient of the result alone, because each cell is a sum of cells by constant weights.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.kernels.table import RESAMPLINGS
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import (
    CircularPad2d,
    Flip,
    Interpolate,
    Operation,
    ReflectionPad2d,
    ReplicationPad2d,
)

_WAYS: dict[type[Operation], str] = {
    ReflectionPad2d: "reflect",
    ReplicationPad2d: "replicate",
    CircularPad2d: "circular",
    Flip: "flip",
}


def _settings(op: Operation) -> tuple[int, int, int]:
    """Return the way of sampling, and the number of rows above the plane and of columns before it."""
    if isinstance(op, Interpolate):
        return RESAMPLINGS.index("aligned" if op.align_corners else "half_pixel"), 0, 0
    left, _, top, _ = getattr(op, "padding", (0, 0, 0, 0))
    return RESAMPLINGS.index(_WAYS[type(op)]), top, left


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    y = recorder.result(node)
    recorder.call("resample_forward", recorder.source(node), *_settings(node.op), y)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("resample_backward", dy, *_settings(node.op), dx)
    output_grads.give(below, dx)
    return {}


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = dict.fromkeys(
    (Interpolate, *_WAYS), _forward
)
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = dict.fromkeys(
    (Interpolate, *_WAYS), _backward
)

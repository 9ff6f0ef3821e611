"""The lowering of activations, both passes. A rectifier saves one bit of each value. A smooth activation saves its
input or its result.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.kernels.table import ACTIVATIONS
from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients, trained_block
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import (
    ELU,
    GELU,
    OPERATIONS,
    LeakyReLU,
    Operation,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    Smooth,
    Softplus,
    Tanh,
)


def planes_view(x: Tensor) -> Tensor:
    """Return x with a plane axis: features [B, F] become one plane [B, 1, F], so that ReLU bits are packed densely."""
    return x.channels if len(x.shape) > 2 else x.view(x.shape[0], 1, x.shape[1])


def rectifier(op: Operation) -> tuple[str, tuple[float, ...]]:
    """Return the name of a rectifier's kernels, and its settings."""
    if isinstance(op, LeakyReLU):
        return "leaky_relu", (op.negative_slope,)
    return ("relu6" if isinstance(op, ReLU6) else "relu"), ()


def _rectifier(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x, bits = recorder.source(node), None
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    planes = planes_view(x)
    if recorder.needed(node.inputs[0]):
        inner = planes.shape[2] if len(planes.shape) == 3 else planes.shape[2] * planes.shape[3]
        bits = recorder.new((planes.shape[0] * planes.shape[1] * ((inner + 7) // 8),), "byte")
        recorder.extras[node.name, "bits"] = bits
    kernel, settings = rectifier(node.op)
    recorder.call(f"{kernel}_forward", planes, *settings, planes_view(y), bits)
    return y


def _rectifier_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    dx, below = output_grads.target(dy), node.inputs[0]
    channels = recorder.channels_needed(below) if len(dy.shape) > 2 else None
    bits, (kernel, settings) = recorder.extras[node.name, "bits"], rectifier(node.op)
    kernel = "relu" if kernel == "relu6" else kernel  # the bits say where a gradient passes
    recorder.call(f"{kernel}_backward", planes_view(dy), bits, *settings, planes_view(dx), channels)
    output_grads.give(below, dx)
    return {}


def smooth(op: Operation) -> tuple[str, tuple[float, ...]]:
    """The name of a smooth activation's kernels, and its settings."""
    return ("elu", (op.alpha,)) if isinstance(op, ELU) else ("activation", kind(op))


def kind(op: Operation) -> tuple[int, float, float]:
    """Return the number of a smooth activation among ACTIVATIONS, then its settings: beta and threshold of
    a softplus.
    """
    name = "gelu_tanh" if op == GELU("tanh") else op.title.lower()
    settings = (op.beta, op.threshold) if isinstance(op, Softplus) else (1.0, 0.0)
    return (ACTIVATIONS.index(name), *settings)


def _smooth(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x, keeps = recorder.source(node), recorder.needed(node.inputs[0])
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    if keeps:
        recorder.extras[node.name, "saved"] = y if isinstance(node.op, OF_RESULT) else x
    kernel, settings = smooth(node.op)
    recorder.call(f"{kernel}_forward", x, *settings, y)
    return y


def _smooth_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    dx, below = output_grads.target(dy), node.inputs[0]
    saved, channels = recorder.extras[node.name, "saved"], recorder.channels_needed(below)
    kernel, settings = smooth(node.op)
    recorder.call(f"{kernel}_backward", dy, saved, *settings, dx, channels)
    output_grads.give(below, dx)
    return {}


def _prelu(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x, weight = recorder.source(node), recorder.param(node, "weight")
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    recorder.extras[node.name, "saved"] = x
    recorder.call("prelu_forward", x, weight, y)
    return y


def _prelu_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    weight, dx, below = trained_block(recorder, node, "weight"), output_grads.target(dy), node.inputs[0]
    arguments = (dy, recorder.extras[node.name, "saved"], recorder.param(node, "weight"), dx, weight.values)
    recorder.call("prelu_backward", *arguments, recorder.channels_needed(below), weight.rows)
    output_grads.give(below, dx)
    return {} if is_empty(weight.rows) else {node.full_name("weight"): weight}


OF_RESULT = (Sigmoid, Tanh)
"""Smooth activations whose backward pass reads their result. All other smooth activations read their input there."""

_SMOOTH = [op for op in OPERATIONS.values() if issubclass(op, Smooth)]
_RECTIFIERS = (ReLU, ReLU6, LeakyReLU)
FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    **dict.fromkeys(_RECTIFIERS, _rectifier),
    **dict.fromkeys(_SMOOTH, _smooth),
    PReLU: _prelu,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    **dict.fromkeys(_RECTIFIERS, _rectifier_backward),
    **dict.fromkeys(_SMOOTH, _smooth_backward),
    PReLU: _prelu_backward,
}

"""The lowering of the transposed convolution, both passes: a convolution's kernels with input and output exchanged."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.lowering.gradients import ActivationGradients, Gradients, bias, trained_block
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.saved_inputs import save_input, weight_and_bias
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import ConvTranspose2d, Operation


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x, y = node.op, recorder.source(node), recorder.result(node)
    assert isinstance(op, ConvTranspose2d)
    weight, offset = weight_and_bias(recorder, node, op.bias)
    recorder.call("conv2d_grad_input", x, weight, y, *_geometry(op), None, None)
    if offset is not None:
        recorder.call("add_channels", y, offset)
    save_input(recorder, readers, node, x)
    return y


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, below = node.op, node.inputs[0]
    assert isinstance(op, ConvTranspose2d)
    gradients: Gradients = {}
    if node.name in recorder.inputs:
        gradients |= _weight(recorder, node, dy)
    gradients |= bias(recorder, node, dy, op.bias)
    if recorder.needed(below):
        dx = recorder.like(recorder.read(below, node))
        dy, weight = _in_need(recorder, node, dy)
        recorder.call("conv2d_forward", dy, weight, None, dx, *_geometry(op))
        output_grads.give(below, dx)
    return gradients


def _in_need(recorder: Recorder, node: Node, dy: Tensor) -> tuple[Tensor, Param | Tensor]:
    """Return the gradient and the weight without the channels that are cut, through which no gradient passes."""
    weight, channels = recorder.param(node, "weight"), recorder.channels_needed(node.name)
    if channels is None:
        return dy, weight
    ins, outs, *kernel = weight.shape
    kept = recorder.new((dy.shape[0], channels.size, *dy.shape[2:]))
    taken = recorder.new((ins, channels.size, *kernel))
    cells = math.prod(kernel)
    recorder.call("take_channels", dy, channels, kept)
    recorder.call("take_axes", weight.view(ins, outs, cells), None, channels, taken.view(ins, channels.size, cells))
    return kept, taken


def _weight(recorder: Recorder, node: Node, dy: Tensor) -> Gradients:
    """Record the gradient of the weight.

    The convolution that is transposed reads dy, and the saved input is the gradient of its result.
    """
    op, dw = node.op, trained_block(recorder, node, "weight")
    assert isinstance(op, ConvTranspose2d)
    x, ids = recorder.inputs[node.name]
    recorder.call("conv2d_grad_weight", dy, x, dw.values, *_geometry(op), ids, dw.cols, op.out_channels)
    return {node.full_name("weight"): dw}


def _geometry(op: ConvTranspose2d) -> tuple[object, ...]:
    return op.stride, op.padding, op.dilation, op.groups


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {ConvTranspose2d: _forward}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    ConvTranspose2d: _backward
}

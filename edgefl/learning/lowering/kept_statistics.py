"""The lowering of a BatchNorm that keeps its running statistics in training, both passes.

It computes y = w (x - mean) / sqrt(var + eps) + b, where mean and var are constants, with the kernels of evaluation. A
BatchNorm whose statistics move is lowered in forward.py and backward.py.

The backward pass needs the input, and only where the weight is trained.
"""

from __future__ import annotations

from edgefl.learning.lowering.activation import kind
from edgefl.learning.lowering.channel_sets import is_empty
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients, trained_block
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import BatchNorm, Hardsigmoid

Values = Param | Tensor


def forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    """Record y, which overwrites x where nothing reads x later."""
    op, x = node.op, recorder.source(node)
    assert isinstance(op, BatchNorm)
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    params = [recorder.param(node, name) for name in ("weight", "bias", "running_mean", "running_var")]
    recorder.call("batchnorm_eval", x.channels, *params, y.channels, op.eps)
    recorder.extras[node.name, "x"] = x
    return y


def backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    """Record the gradients of weight and bias where they are trained, and the gradient of x where it is needed."""
    blocks, found = recorder.scope.active.blocks, Gradients()
    channels = recorder.param(node, "weight").shape[0]
    zeros = recorder.new((channels,))
    recorder.call("fill_zero", zeros)
    if node.full_name("weight") in blocks and not is_empty(own_rows(node, blocks)):
        weight, mean = trained_block(recorder, node, "weight"), recorder.param(node, "running_mean")
        x = recorder.extras[node.name, "x"]
        xhat = recorder.like(x)
        _scaled(recorder, node, x, (ones(recorder, zeros), zeros, mean), xhat)
        products = recorder.new(dy.channels.shape[:2])
        recorder.call("channel_dot", dy.channels, xhat.channels, products)
        recorder.call("channel_sum", products, weight.values, weight.rows)
        found[node.full_name("weight")] = weight
    if node.full_name("bias") in blocks and not is_empty(own_rows(node, blocks)):
        bias = trained_block(recorder, node, "bias")
        recorder.call("channel_sum", dy.channels, bias.values, bias.rows)
        found[node.full_name("bias")] = bias
    if recorder.needed(node.inputs[0]):
        dx = output_grads.target(dy)
        _scaled(recorder, node, dy, (recorder.param(node, "weight"), zeros, zeros), dx)
        output_grads.give(node.inputs[0], dx)
    return found


def _scaled(recorder: Recorder, node: Node, x: Tensor, terms: tuple[Values, Values, Values], y: Tensor) -> None:
    """Record y = weight (x - mean) / sqrt(running_var + eps) + bias, from the terms (weight, bias, mean)."""
    assert isinstance(node.op, BatchNorm)
    weight, bias, mean = terms
    variance = recorder.param(node, "running_var")
    recorder.call("batchnorm_eval", x.channels, weight, bias, mean, variance, y.channels, node.op.eps)


def ones(recorder: Recorder, zeros: Tensor) -> Tensor:
    """Record as many ones as there are zeros. A hard sigmoid of 0 is exactly 1/2 on every backend."""
    ones = recorder.like(zeros)
    recorder.call("activation_forward", zeros, *kind(Hardsigmoid()), ones)
    recorder.call("add", ones, ones, ones)
    return ones

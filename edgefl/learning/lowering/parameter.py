"""The lowering of operations whose parameter does not mix channels, both passes. They reuse kernels of other
operations.

A parameter with one value for each value of an example is added like a bias of as many channels. It is transposed first
if it lies in torch's order. A product keeps its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.lowering.channel_sets import is_empty, members
from edgefl.learning.lowering.gradient_needs import own_rows
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients, trained_block
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Param, Tensor, TrainedBlock
from edgefl.models.graph import Node
from edgefl.models.graph.operations import (
    AddParameter,
    Embedding,
    EmbeddingOfRow,
    MulParameter,
    Operation,
    WithParameter,
)


def _embedding(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    ids, y = recorder.source(node), recorder.result(node)
    recorder.call("embedding_forward", ids, recorder.param(node, "weight"), _sequence(y))
    return y


def _embedding_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, Embedding)
    weight = trained_block(recorder, node, "weight")
    if is_empty(weight.cols):
        return {}
    padding = -1 if node.op.padding_idx is None else node.op.padding_idx
    recorder.call("embedding_backward", _sequence(dy), recorder.source(node), weight.values, padding, weight.cols)
    return {node.full_name("weight"): weight}


def _sequence(x: Tensor) -> Tensor:
    """Return x as [B, features, length]."""
    return x.view(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _add(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x = recorder.source(node)
    y = x if readers.is_free(node.inputs[0], node) else recorder.result(node)
    if y.buffer != x.buffer:
        recorder.call("put_channels", x, 0, y)
    recorder.call("add_channels", _values(node, y), _offset(recorder, node, x))
    return y


def _add_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    found = _gradient(recorder, node, _values(node, dy), dy)
    output_grads.give(node.inputs[0], dy)
    return found


def _mul(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x, y = recorder.source(node), recorder.result(node)
    _product(recorder, node, x, y)
    return y


def _mul_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    below, x = node.inputs[0], _values(node, recorder.source(node))
    found: Gradients = {}
    if not is_empty(own_rows(node, recorder.scope.active.blocks)):
        products = recorder.new(x.shape[:2])
        recorder.call("channel_dot", _values(node, dy), x, products)
        found = _gradient(recorder, node, products, dy)
    if recorder.needed(below):
        dx = recorder.like(dy)
        _product(recorder, node, dy, dx)
        output_grads.give(below, dx)
    return found


def _product(recorder: Recorder, node: Node, x: Tensor, y: Tensor) -> None:
    """Record y = x times the parameter, of which every example gets a copy."""
    values = _values(node, x)
    copies = recorder.new(values.shape[:2])
    recorder.call("fill_zero", copies)
    recorder.call("add_channels", copies, _offset(recorder, node, x))
    recorder.call("scale_channels", values, copies, _values(node, y))


def _values(node: Node, x: Tensor) -> Tensor:
    """Return x with a channel for each value of the parameter."""
    assert isinstance(node.op, WithParameter)
    return x.view(x.shape[0], math.prod(x.shape[1:]), 1) if node.op.is_whole(x.shape[1:]) else _sequence(x)


def _is_turned(node: Node, x: Tensor) -> bool:
    """Return whether the parameter lies position by position, and has to be transposed."""
    assert isinstance(node.op, WithParameter)
    return node.op.channels_last and node.op.is_whole(x.shape[1:])


def _offset(recorder: Recorder, node: Node, x: Tensor) -> Param | Tensor:
    """Return the parameter with one value for each channel of `_values`."""
    full = recorder.param(node, "")
    count = math.prod(full.shape)
    if not _is_turned(node, x):
        return full.view(count)
    channels = x.shape[1]
    turned = recorder.new((1, channels, count // channels))
    recorder.call("transpose", full.view(1, count // channels, channels), turned)
    return turned.view(count)


def _gradient(recorder: Recorder, node: Node, output_grad: Tensor, dy: Tensor) -> Gradients:
    """Record the parameter's gradient in torch's layout: the sum of `output_grad` over the batch."""
    rows = own_rows(node, recorder.scope.active.blocks)
    if is_empty(rows):
        return {}
    block = trained_block(recorder, node, "")
    count = math.prod(block.values.shape)
    positions = math.prod(output_grad.shape[1:]) // (dy.shape[1] * math.prod(output_grad.shape[2:]))
    outs = members(rows, positions)
    if not _is_turned(node, dy):
        recorder.call("channel_sum", output_grad, block.values.view(count), outs)
    else:
        sums = recorder.new((count,))
        recorder.call("channel_sum", output_grad, sums, outs)
        _turn_back(recorder, sums, block, positions)
    return {node.full_name(""): block}


def _turn_back(recorder: Recorder, sums: Tensor, block: TrainedBlock, positions: int) -> None:
    channels = math.prod(sums.shape) // positions
    recorder.call("transpose", sums.view(1, channels, positions), block.values.view(1, positions, channels))


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    EmbeddingOfRow: _embedding,
    AddParameter: _add,
    MulParameter: _mul,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    EmbeddingOfRow: _embedding_backward,
    AddParameter: _add_backward,
    MulParameter: _mul_backward,
}

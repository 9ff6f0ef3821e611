"""Lowers, both passes, what moves values or puts results together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgefl.graph import Node
from edgefl.graph.operations import Add, Concat, Flatten, Mul, Operation, Upsample, ZeroPad2d
from edgefl.learners.lowering.recorder import Readers, Recorder
from edgefl.learners.lowering.schedule import Tensor
from edgefl.learners.lowering.signals import Gradients, Signals


def _flatten(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x = recorder.source(node)
    return x.view(x.shape[0], recorder.scope.graph.shapes[node.name][0])


def _flatten_backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    below = node.inputs[0]
    signals.give(below, dy.view(*recorder.values[below].shape))
    return {}


def _add(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    a, b = (recorder.read(name, node) for name in node.inputs)
    free = [value for name, value in zip(node.inputs, (a, b), strict=True) if readers.is_free(name, node)]
    y = free[0] if free else recorder.result(node)
    recorder.call("add", a, b, y)
    return y


def _add_backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    signals.share(node.inputs, dy)
    return {}


def _mul(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    a, b = (recorder.read(name, node) for name in node.inputs)
    y = a if readers.is_free(node.inputs[0], node) else recorder.result(node)
    _product(recorder, a, b, y)
    return y


def _product(recorder: Recorder, a: Tensor, b: Tensor, y: Tensor) -> None:
    """y = a b, or a with its planes multiplied by a gate each."""
    if a.shape == b.shape:
        recorder.call("mul", a, b, y)
    else:
        recorder.call("scale_channels", a, b.view(*b.shape[:2]), y)


def _mul_backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    """The second factor's gradient comes first, as it reads dy, over which the first one's may be written."""
    (first, second), (a, b) = node.inputs, (recorder.read(name, node) for name in node.inputs)
    if recorder.needed(second):
        db = recorder.like(b)
        if a.shape == b.shape:
            recorder.call("mul", dy, a, db)
        else:
            recorder.call("channel_dot", dy, a, db.view(*b.shape[:2]))
        signals.give(second, db)
    if recorder.needed(first):
        da = signals.target(dy)
        _product(recorder, dy, b, da)
        signals.give(first, da)
    return {}


def _parts(recorder: Recorder, node: Node) -> Iterator[tuple[str, int]]:
    """Each result of a concatenation, and its first channel there."""
    first = 0
    for name in node.inputs:
        yield name, first
        first += recorder.scope.graph.shapes[name][0]


def _concat(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    y = recorder.result(node)
    for name, first in _parts(recorder, node):
        recorder.call("put_channels", recorder.read(name, node), first, y)
    return y


def _concat_backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    for name, first in _parts(recorder, node):
        if recorder.needed(name):
            dx = recorder.new(recorder.values[name].shape)
            recorder.call("get_channels", dy, first, dx)
            signals.give(name, dx)
    return {}


def _pad(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    y = recorder.result(node)
    recorder.call("pad_planes", recorder.source(node), *_corner(node), y)
    return y


def _pad_backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("crop_planes", dy, *_corner(node), dx)
    signals.give(below, dx)
    return {}


def _corner(node: Node) -> tuple[int, int]:
    """Rows above and columns before the plane."""
    assert isinstance(node.op, ZeroPad2d)
    left, _, top, _ = node.op.padding
    return top, left


def _upsample(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, Upsample)
    y = recorder.result(node)
    recorder.call("upsample_forward", recorder.source(node), node.op.scale_factor, y)
    return y


def _upsample_backward(recorder: Recorder, signals: Signals, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, Upsample)
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("upsample_backward", dy, node.op.scale_factor, dx)
    signals.give(below, dx)
    return {}


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    Flatten: _flatten,
    Add: _add,
    Mul: _mul,
    Concat: _concat,
    ZeroPad2d: _pad,
    Upsample: _upsample,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, Signals, Node, Tensor], Gradients]] = {
    Flatten: _flatten_backward,
    Add: _add_backward,
    Mul: _mul_backward,
    Concat: _concat_backward,
    ZeroPad2d: _pad_backward,
    Upsample: _upsample_backward,
}

"""The lowering of operations that move values or put results together, both passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.operations import (
    Add,
    Concat,
    Flatten,
    FlattenPlaces,
    InputPart,
    Mul,
    Operation,
    Permute,
    Reshape,
    Shape,
    SliceOfRow,
    Upsample,
    ZeroPad2d,
)


def _view(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x = recorder.source(node)
    return x.view(x.shape[0], *recorder.scope.graph.shapes[node.name])


def _view_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    below = node.inputs[0]
    output_grads.give(below, dy.view(*recorder.values[below].shape))
    return {}


def _add(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    a, b = (recorder.read(name, node) for name in node.inputs)
    free = [value for name, value in zip(node.inputs, (a, b), strict=True) if readers.is_free(name, node)]
    y = free[0] if free else recorder.result(node)
    recorder.call("add", a, b, y)
    return y


def _add_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    output_grads.share(node.inputs, dy)
    return {}


def _mul(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    a, b = (recorder.read(name, node) for name in node.inputs)
    y = a if readers.is_free(node.inputs[0], node) else recorder.result(node)
    _product(recorder, a, b, y)
    return y


def _product(recorder: Recorder, a: Tensor, b: Tensor, y: Tensor) -> None:
    """Record y = a b. If b is smaller than a, each plane or each place of a is multiplied by its own value of b."""
    if a.shape == b.shape:
        recorder.call("mul", a, b, y)
    elif a.shape[1] == b.shape[1]:
        recorder.call("scale_channels", a, b.view(*b.shape[:2]), y)
    else:
        recorder.call("scale_places", a, _of_places(b), y)


def _of_places(gate: Tensor) -> Tensor:
    """A gate [batch, 1, ...] without the axis of channels."""
    return gate.view(gate.shape[0], *gate.shape[2:])


def _mul_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    """Record the gradients of both factors.

    The second factor's gradient comes first, because it reads dy, which the first factor's gradient may overwrite.
    """
    (first, second), (a, b) = node.inputs, (recorder.read(name, node) for name in node.inputs)
    if recorder.needed(second):
        db = recorder.like(b)
        if a.shape == b.shape:
            recorder.call("mul", dy, a, db)
        elif a.shape[1] == b.shape[1]:
            recorder.call("channel_dot", dy, a, db.view(*b.shape[:2]))
        else:
            recorder.call("place_dot", dy, a, _of_places(db))
        output_grads.give(second, db)
    if recorder.needed(first):
        da = output_grads.target(dy)
        _product(recorder, dy, b, da)
        output_grads.give(first, da)
    return {}


def _parts(recorder: Recorder, node: Node) -> Iterator[tuple[str, int]]:
    """Yield each input of a concatenation, and its first channel in the result."""
    first = 0
    for name in node.inputs:
        yield name, first
        first += recorder.scope.graph.shapes[name][0]


def _concat(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    y = recorder.result(node)
    for name, first in _parts(recorder, node):
        recorder.call("put_channels", recorder.read(name, node), first, y)
    return y


def _concat_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    for name, first in _parts(recorder, node):
        if recorder.needed(name):
            dx = recorder.new(recorder.values[name].shape)
            recorder.call("get_channels", dy, first, dx)
            output_grads.give(name, dx)
    return {}


def _pad(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    y = recorder.result(node)
    recorder.call("pad_planes", recorder.source(node), *_corner(node), y)
    return y


def _pad_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("crop_planes", dy, *_corner(node), dx)
    output_grads.give(below, dx)
    return {}


def _corner(node: Node) -> tuple[int, int]:
    """Return the number of rows above the plane and of columns before it."""
    assert isinstance(node.op, ZeroPad2d)
    left, _, top, _ = node.op.padding
    return top, left


def _upsample(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, Upsample)
    y = recorder.result(node)
    recorder.call("upsample_forward", recorder.source(node), node.op.scale_factor, y)
    return y


def _upsample_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, Upsample)
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("upsample_backward", dy, node.op.scale_factor, dx)
    output_grads.give(below, dx)
    return {}


def _flatten_positions(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    x, y = recorder.source(node), recorder.result(node)
    recorder.call("transpose", _rows(x), _turned(y, x))
    return y


def _flatten_positions_backward(
    recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor
) -> Gradients:
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("transpose", _turned(dy, dx), _rows(dx))
    output_grads.give(below, dx)
    return {}


def _rows(x: Tensor) -> Tensor:
    """Return x as [B, channels, positions]."""
    return x.view(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _turned(flat: Tensor, like: Tensor) -> Tensor:
    """Return features as [B, positions, channels]."""
    return flat.view(flat.shape[0], math.prod(like.shape[2:]), like.shape[1])


def _permute(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, Permute)
    y = recorder.result(node)
    _exchange(recorder, recorder.source(node), node.op.axes, y)
    return y


def _permute_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, Permute)
    below, axes = node.inputs[0], node.op.axes
    dx = recorder.new(recorder.values[below].shape)
    _exchange(recorder, dy, tuple(axes.index(axis) for axis in range(len(axes))), dx)
    output_grads.give(below, dx)
    return {}


def _exchange(recorder: Recorder, x: Tensor, axes: Shape, y: Tensor) -> None:
    """Record y = x with its three axes in this order.

    One exchange of neighbours is enough, except where all three axes move: then there are two exchanges.
    """
    batch, *sizes = x.shape
    if axes == (2, 1, 0) and 1 not in sizes:
        between = recorder.new((batch, sizes[1], sizes[2], sizes[0]))
        _exchange(recorder, x, (1, 2, 0), between)
        _exchange(recorder, between, (1, 0, 2), y)
        return
    first, second, rest = _neighbours(axes, sizes)
    outer = batch * math.prod(sizes) // (first * second * rest)
    inner = (rest,) if rest > 1 else ()
    recorder.call("transpose", x.view(outer, first, second, *inner), y.view(outer, second, first, *inner))


def _neighbours(axes: Shape, sizes: Sequence[int]) -> tuple[int, int, int]:
    """Return the extents of the two runs of axes that are exchanged, and of the axes within them."""
    a, b, c = sizes
    if axes == (2, 1, 0):  # one extent is 1, so the other two are the runs
        first, second, *_ = (*(n for n in sizes if n > 1), 1, 1)
        return first, second, 1
    runs = {(0, 1, 2): (1, 1, a * b * c), (0, 2, 1): (b, c, 1), (1, 0, 2): (a, b, c), (1, 2, 0): (a, b * c, 1)}
    return runs.get((axes[0], axes[1], axes[2]), (a * b, c, 1))


def _slice(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, SliceOfRow)
    y = recorder.result(node)
    recorder.call("crop_planes", recorder.source(node), 0, node.op.start, y)
    return y


def _slice_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, SliceOfRow)
    below = node.inputs[0]
    dx = recorder.new(recorder.values[below].shape)
    recorder.call("pad_planes", dy, 0, node.op.start, dx)
    output_grads.give(below, dx)
    return {}


def _part(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    """Record a part of the input. No gradient of it is ever needed."""
    assert isinstance(node.op, InputPart)
    y = recorder.result(node)
    recorder.call("get_channels", recorder.source(node), node.op.start, y.view(y.shape[0], math.prod(y.shape[1:])))
    return y


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    Flatten: _view,
    Reshape: _view,
    FlattenPlaces: _flatten_positions,
    Permute: _permute,
    InputPart: _part,
    SliceOfRow: _slice,
    Add: _add,
    Mul: _mul,
    Concat: _concat,
    ZeroPad2d: _pad,
    Upsample: _upsample,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Flatten: _view_backward,
    Reshape: _view_backward,
    FlattenPlaces: _flatten_positions_backward,
    Permute: _permute_backward,
    SliceOfRow: _slice_backward,
    Add: _add_backward,
    Mul: _mul_backward,
    Concat: _concat_backward,
    ZeroPad2d: _pad_backward,
    Upsample: _upsample_backward,
}

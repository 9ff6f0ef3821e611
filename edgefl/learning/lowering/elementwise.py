"""The lowering of expressions and of reductions along axes, both passes.

Inputs that are broadcast are copied out first, and their gradients are summed. Axes next to each other are taken
together. A gradient computes the expression again from its inputs and keeps nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from edgefl.kernels.expression_steps import MOST_INPUTS
from edgefl.learning.lowering.gradients import ActivationGradients, Gradients
from edgefl.learning.lowering.recorder import Readers, Recorder
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.models.graph import Node
from edgefl.models.graph.expression import GRADIENT
from edgefl.models.graph.expression_gradient import Program, forward, gradient
from edgefl.models.graph.operations import AdapterSum, Elementwise, Operation, Reduce, Shape

SUM, LARGEST, SMALLEST = range(3)
KINDS = {"sum": SUM, "mean": SUM, "max": LARGEST, "min": SMALLEST}
TIES = forward("a == b")
SHARE = forward("where(a == b, c / d, 0)")  # of the gradient c of the extreme b, of which there are d


def _forward(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    assert isinstance(node.op, Elementwise)
    inputs = _inputs(recorder, node)
    y = _over_an_input(recorder, node, inputs, readers)
    y = recorder.result(node) if y is None else y
    evaluate(recorder, forward(node.op.expression), inputs, y)
    return y


def _over_an_input(recorder: Recorder, node: Node, inputs: Sequence[Tensor], readers: Readers) -> Tensor | None:
    """Return an input that nothing reads any more and that has the result's shape."""
    result = (recorder.scope.batch, *recorder.scope.graph.shapes[node.name])
    for name, given in zip(node.inputs, inputs, strict=True):
        if given.buffer == recorder.values[name].buffer and given.shape == result and readers.is_free(name, node):
            return given
    return None


def _backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    assert isinstance(node.op, Elementwise)
    needed = [number for number, name in enumerate(node.inputs) if recorder.needed(name)]
    inputs = _inputs(recorder, node)
    for number in needed:
        dx = recorder.like(dy)
        evaluate(recorder, gradient(node.op.expression, number), inputs, dx, dy)
        shape = recorder.values[node.inputs[number]].shape
        output_grads.give(node.inputs[number], _summed(recorder, dx, shape))
    return {}


def _inputs(recorder: Recorder, node: Node) -> list[Tensor]:
    """Return the node's inputs with the shape of its result."""
    shape = (recorder.scope.batch, *recorder.scope.graph.shapes[node.name])
    return [expanded(recorder, recorder.read(name, node), shape) for name in node.inputs]


def evaluate(
    recorder: Recorder, program: Program, inputs: Sequence[Param | Tensor], y: Tensor, dy: Tensor | None = None
) -> None:
    """Record y, the value of a program. Kernels get the inputs that the program reads, and some input as the first."""
    given: list[Param | Tensor | None] = [*inputs, *[None] * (MOST_INPUTS - len(inputs))]
    given[GRADIENT] = dy
    read = [each if at in program.reads else None for at, each in enumerate(given)]
    read[0] = read[0] or next((each for each in read if each is not None), y)
    recorder.call("evaluate", *read, program.steps, program.constants, y)


# ---- axes -----------------------------------------------------------------------------------------------------------


def _runs(axes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the axes in runs of neighbours, the last run first."""
    runs = [[axis for _, axis in run] for _, run in groupby(enumerate(axes), lambda pair: pair[1] - pair[0])]
    yield from reversed(runs)


def _around(shape: Shape, run: list[int]) -> tuple[int, int, int]:
    """Return the number of values before, along and after a run of axes."""
    return math.prod(shape[: run[0]]), math.prod(shape[axis] for axis in run), math.prod(shape[run[-1] + 1 :])


def expanded(recorder: Recorder, x: Tensor, shape: Shape) -> Tensor:
    """Return x with extents of 1 repeated, so that it has this shape."""
    for run in _runs([axis for axis, (own, size) in enumerate(zip(x.shape, shape, strict=True)) if own != size]):
        whole = tuple(shape[axis] if axis in run else size for axis, size in enumerate(x.shape))
        before, copies, after = _around(whole, run)
        y = recorder.new(whole)
        recorder.call("expand", x.view(before, after), y.view(before, copies, after))
        x = y
    return x


def reduced(recorder: Recorder, x: Tensor, axes: Sequence[int], kind: int = SUM, scale: float = 1.0) -> Tensor:
    """Return the sums times scale, or the extremes, of x along axes, which become extents of 1."""
    for run in _runs([axis for axis in axes if x.shape[axis] != 1]):
        before, values, after = _around(x.shape, run)
        y = recorder.new(tuple(1 if axis in run else size for axis, size in enumerate(x.shape)))
        recorder.call("reduce", x.view(before, values, after), kind, scale, y.view(before, after))
        x, scale = y, 1.0
    return x


def _summed(recorder: Recorder, x: Tensor, shape: Shape) -> Tensor:
    """Return x summed along the axes that have an extent of 1 in this shape."""
    return reduced(recorder, x, [axis for axis, size in enumerate(shape) if size != x.shape[axis]])


# ---- reductions -----------------------------------------------------------------------------------------------------


def _axes(op: Reduce) -> list[int]:
    return [axis + 1 for axis in op.axes]


def _reduce(recorder: Recorder, readers: Readers, node: Node) -> Tensor:
    op, x = node.op, recorder.source(node)
    assert isinstance(op, Reduce)
    scale = 1 / math.prod(x.shape[axis] for axis in _axes(op)) if op.kind == "mean" else 1.0
    y = reduced(recorder, x, _axes(op), KINDS[op.kind], scale)
    if op.kind in ("max", "min"):
        recorder.extras[node.name, "extremes"] = y  # the backward pass looks for equal values
    if y.buffer != x.buffer:
        return y
    y = recorder.result(node)  # axes of extent 1, along which nothing is reduced
    recorder.call("put_channels", x.view(1, 1, math.prod(x.shape)), 0, y.view(1, 1, math.prod(x.shape)))
    return y


def _reduce_backward(recorder: Recorder, output_grads: ActivationGradients, node: Node, dy: Tensor) -> Gradients:
    op, x = node.op, recorder.source(node)
    assert isinstance(op, Reduce)
    if KINDS[op.kind] == SUM:
        output_grads.give(node.inputs[0], _of_sum(recorder, op, x, dy))
        return {}
    largest = expanded(recorder, recorder.extras[node.name, "extremes"], x.shape)
    ties = recorder.like(x)
    evaluate(recorder, TIES, [x, largest], ties)
    count = expanded(recorder, reduced(recorder, ties, _axes(op)), x.shape)
    dx = recorder.like(x)
    evaluate(recorder, SHARE, [x, largest, expanded(recorder, dy, x.shape), count], dx)
    output_grads.give(node.inputs[0], dx)
    return {}


def _of_sum(recorder: Recorder, op: Reduce, x: Tensor, dy: Tensor) -> Tensor:
    """Return the gradient of a sum, or of a mean."""
    size = math.prod(x.shape[axis] for axis in _axes(op))
    if op.kind == "mean" and size > 1:
        scaled = recorder.like(dy)
        evaluate(recorder, forward(f"a * {1 / size!r}"), [dy], scaled)
        dy = scaled
    return expanded(recorder, dy, x.shape)


FORWARD: dict[type[Operation], Callable[[Recorder, Readers, Node], Tensor]] = {
    Elementwise: _forward,
    AdapterSum: _forward,
    Reduce: _reduce,
}
BACKWARD: dict[type[Operation], Callable[[Recorder, ActivationGradients, Node, Tensor], Gradients]] = {
    Elementwise: _backward,
    AdapterSum: _backward,
    Reduce: _reduce_backward,
}

"""The lowering of computed parameters, both ways, with kernels of other operations.

A computed parameter is a tensor of the arena, which lives until the backward pass has read it. Its gradient becomes the
gradients of its sources. Weight norm uses the batch norm of evaluations: y = weight (x - mean) / sqrt(variance + eps).

    W = g v / |v|      dg = sum of dW v / |v| over each row      dv = g / |v| (dW - v / |v| dg)
    W = A B            dA = dW B^T                               dB = A^T dW
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from edgefl.learning.lowering.elementwise import evaluate
from edgefl.learning.lowering.fusion import FusedNormReLU
from edgefl.learning.lowering.kept_statistics import ones
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Param, Tensor
from edgefl.learning.lowering.turned_weight import turned_weights
from edgefl.models.graph import Node, expression_gradient
from edgefl.models.graph.computed_parameters import (
    ComputedParameter,
    ExchangedAxes,
    MatrixProduct,
    ParameterExpression,
    ParameterOperation,
    ParameterProduct,
    ParameterRows,
    ParameterSum,
    ReshapedParameter,
    RowsAtPlaces,
    ScaledParameter,
    StackedParameters,
    TransposedMatrix,
    WeightNorm,
)

Value = Param | Tensor
Values = Sequence[Value]


def layer_of_node(node: Node) -> Node:
    """Return the node that has the parameters of a node of a schedule."""
    return node.op.norm if isinstance(node.op, FusedNormReLU) else node


def prepare(recorder: Recorder, node: Node) -> None:
    """Record the values of the computed parameters that a node reads, unless they are there already."""
    graph, owner = recorder.scope.graph, layer_of_node(node)
    if graph.computed:
        needed = {owner.full_name(part) for part in owner.op.parameters()}
        wanted = {each.name for each in graph.part_of_computed(needed)} - turned_weights(graph).keys()
        for each in graph.computed:
            if each.name in wanted and each.name not in recorder.computed:
                value = _FORWARD[type(each.op)](recorder, each.op, _sources(recorder, each))
                if recorder.scope.trains and isinstance(value, Tensor):
                    recorder.keep(value)  # so it is not narrowed to float16
                recorder.computed[each.name] = value


def backward(recorder: Recorder, each: ComputedParameter, gradient: Tensor) -> list[tuple[str, Tensor]]:
    """Record the gradients of the trained sources from the gradient of the computed parameter. Return them by name."""
    trained = [name in recorder.scope.active.blocks for name in each.sources]
    given = gradient.view(*each.op.result)
    found = _BACKWARD[type(each.op)](recorder, each.op, _sources(recorder, each), given, trained)
    shapes = each.op.sources
    return [
        (name, grad.view(*shape))
        for name, grad, shape, is_trained in zip(each.sources, found, shapes, trained, strict=True)
        if is_trained and grad is not None
    ]


def _sources(recorder: Recorder, each: ComputedParameter) -> list[Value]:
    shapes = zip(each.sources, each.op.sources, strict=True)
    return [recorder.computed.get(name, Param(name, shape)).view(*shape) for name, shape in shapes]


def _normalised(
    recorder: Recorder, x: Value, squares: Tensor, lengths: Value | None = None, y: Tensor | None = None
) -> Tensor:
    """Record the rows of x [1, rows, inner] divided by the roots of `squares` [1, rows], and times `lengths`."""
    rows = squares.shape[1]
    zeros = recorder.new((rows,))
    recorder.call("fill_zero", zeros)
    gain = ones(recorder, zeros) if lengths is None else lengths.view(rows)
    y = recorder.new(x.shape) if y is None else y
    recorder.call("batchnorm_eval", x, gain, zeros, zeros, squares.view(rows), y, 0.0)
    return y


def _squares(recorder: Recorder, v: Value) -> Tensor:
    squares = recorder.new((1, v.shape[1]))
    recorder.call("channel_dot", v, v, squares)
    return squares


def _in_rows(value: Value) -> Value:
    """Return a parameter as [1, rows, inner]."""
    return value.view(1, value.shape[0], math.prod(value.shape[1:]))


def _weight_norm(recorder: Recorder, op: WeightNorm, sources: Values) -> Tensor:
    g, v = sources[0], _in_rows(sources[1])
    return _normalised(recorder, v, _squares(recorder, v), g).view(*op.result)


def _weight_norm_backward(
    recorder: Recorder, op: WeightNorm, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    g, v, dw = sources[0], _in_rows(sources[1]), dw.view(1, op.shape[0], math.prod(op.shape[1:]))
    squares, rows = _squares(recorder, v), op.shape[0]
    unit, dg = _normalised(recorder, v, squares), recorder.new((1, rows))
    recorder.call("channel_dot", dw, unit, dg)
    if not trained[1]:
        return dg, None
    zeros, negative = recorder.new((rows,)), recorder.new((1, rows))
    recorder.call("fill_zero", zeros)
    gain = ones(recorder, zeros)
    recorder.call(
        "batchnorm_eval", zeros.view(1, rows, 1), gain, zeros, dg.view(rows), zeros, negative.view(1, rows, 1), 1.0
    )
    recorder.call("scale_channels", unit, negative, unit)
    recorder.call("add", dw, unit, unit)
    return dg, _normalised(recorder, unit, squares, g, unit)


def _product(recorder: Recorder, op: MatrixProduct, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    recorder.call("linear_grad_input", *sources, y, None, None)
    return y


def _product_backward(
    recorder: Recorder, op: MatrixProduct, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    left, right = (recorder.new(shape) for shape in op.sources)
    if trained[0]:
        recorder.call("linear_forward", dw, sources[1], None, left)
    if trained[1]:
        recorder.call("linear_grad_weight", dw, sources[0], right, None, None)
    return left, right


def _sum(recorder: Recorder, op: ParameterSum, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    recorder.call("add", *sources, y)
    return y


def _sum_backward(
    recorder: Recorder, op: ParameterSum, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the gradient and a copy, because later calls may write to either."""
    copy = recorder.new(dw.shape)
    if all(trained):
        recorder.call("put_channels", dw.view(1, 1, math.prod(dw.shape)), 0, copy.view(1, 1, math.prod(dw.shape)))
    return (dw, copy) if all(trained) else (dw, dw)


def _times(recorder: Recorder, op: ParameterProduct, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    recorder.call("mul", *sources, y)
    return y


def _times_backward(
    recorder: Recorder, op: ParameterProduct, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    found = [recorder.new(dw.shape) for _ in sources]
    for other, gradient, is_trained in zip(reversed(sources), found, trained, strict=True):
        if is_trained:
            recorder.call("mul", dw, other, gradient)
    return tuple(found)


def scaled(recorder: Recorder, x: Value, factor: float) -> Tensor:
    """Record x / sqrt(1 / factor^2), and return it in a new buffer."""
    y, zero, flat = recorder.new(x.shape), recorder.new((1,)), (1, 1, math.prod(x.shape))
    recorder.call("fill_zero", zero)
    gain = ones(recorder, zero)
    recorder.call("batchnorm_eval", x.view(*flat), gain, zero, zero, zero, y.view(*flat), factor**-2)
    return y


def _scale(recorder: Recorder, op: ScaledParameter, sources: Values) -> Tensor:
    return scaled(recorder, sources[0], op.factor)


def _scale_backward(
    recorder: Recorder, op: ScaledParameter, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    return (_scale(recorder, op, [dw]),)


def _transpose(recorder: Recorder, op: TransposedMatrix, sources: Values) -> Tensor:
    return _turned(recorder, sources[0], op.rows, op.cols)


def _transpose_backward(
    recorder: Recorder, op: TransposedMatrix, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    return (_turned(recorder, dw, op.cols, op.rows),)


def _turned(recorder: Recorder, x: Value, rows: int, cols: int) -> Tensor:
    y = recorder.new((cols, rows))
    recorder.call("transpose", x.view(1, rows, cols), y.view(1, cols, rows))
    return y


def _exchange(recorder: Recorder, op: ExchangedAxes, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    recorder.call("transpose", sources[0].view(*op.sources[0]), y)
    return y


def _exchange_backward(
    recorder: Recorder, op: ExchangedAxes, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    back = ExchangedAxes(op.outer, op.second, op.first, op.inner)
    return (_exchange(recorder, back, [dw]),)


def _reshape(recorder: Recorder, op: ReshapedParameter, sources: Values) -> Value:
    return sources[0].view(*op.result)


def _reshape_backward(
    recorder: Recorder, op: ReshapedParameter, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    return (dw,)


def _rows(recorder: Recorder, op: ParameterRows, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    recorder.call("get_channels", _in_rows(sources[0]), op.start, _in_rows(y))
    return y


def _rows_backward(
    recorder: Recorder, op: ParameterRows, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    whole = recorder.new(op.before)
    recorder.call("fill_zero", whole)
    recorder.call("put_channels", _in_rows(dw), op.start, _in_rows(whole))
    return (whole,)


def _rows_at_places(recorder: Recorder, op: RowsAtPlaces, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    recorder.call("embedding_forward", sources[1].view(1, op.length), sources[0], y.view(1, *op.result))
    return y


def _rows_at_places_backward(
    recorder: Recorder, op: RowsAtPlaces, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the gradient of the table. The places have no gradient."""
    whole, places = recorder.new(op.sources[0]), sources[1].view(1, op.length)
    recorder.call("embedding_backward", dw.view(1, *op.result), places, whole, -1, None)
    return whole, None


def _stack(recorder: Recorder, op: StackedParameters, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    for first, source in zip(accumulate(op.rows, initial=0), sources, strict=False):
        recorder.call("put_channels", _in_rows(source), first, _in_rows(y))
    return y


def _stack_backward(
    recorder: Recorder, op: StackedParameters, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    found = [recorder.new(shape) for shape in op.sources]
    for first, gradient in zip(accumulate(op.rows, initial=0), found, strict=False):
        recorder.call("get_channels", _in_rows(dw), first, _in_rows(gradient))
    return tuple(found)


def _expression(recorder: Recorder, op: ParameterExpression, sources: Values) -> Tensor:
    y = recorder.new(op.result)
    evaluate(recorder, expression_gradient.forward(op.expression), sources, y)
    return y


def _expression_backward(
    recorder: Recorder, op: ParameterExpression, sources: Values, dw: Tensor, trained: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    found = [recorder.new(op.shape) if each else None for each in trained]
    for number, dx in enumerate(found):
        if dx is not None:
            evaluate(recorder, expression_gradient.gradient(op.expression, number), sources, dx, dw)
    return tuple(found)


_FORWARD: dict[type[ParameterOperation], Callable[[Recorder, Any, Values], Value]] = {
    WeightNorm: _weight_norm,
    MatrixProduct: _product,
    ParameterSum: _sum,
    ParameterProduct: _times,
    ScaledParameter: _scale,
    TransposedMatrix: _transpose,
    ExchangedAxes: _exchange,
    ReshapedParameter: _reshape,
    ParameterRows: _rows,
    RowsAtPlaces: _rows_at_places,
    StackedParameters: _stack,
    ParameterExpression: _expression,
}
_BACKWARD: dict[
    type[ParameterOperation],
    Callable[[Recorder, Any, Values, Tensor, Sequence[bool]], tuple[Tensor | None, ...]],
] = {
    WeightNorm: _weight_norm_backward,
    MatrixProduct: _product_backward,
    ParameterSum: _sum_backward,
    ParameterProduct: _times_backward,
    ScaledParameter: _scale_backward,
    TransposedMatrix: _transpose_backward,
    ExchangedAxes: _exchange_backward,
    ReshapedParameter: _reshape_backward,
    ParameterRows: _rows_backward,
    RowsAtPlaces: _rows_at_places_backward,
    StackedParameters: _stack_backward,
    ParameterExpression: _expression_backward,
}

"""Functions of single values and reductions that have no operation of their own: ONNX operators as Elementwise and
Reduce.

Operators that have an operation of their own, such as a sum of two equal shapes, become an expression where their
extents do not fit the operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Elementwise, Reduce
from edgefl.models.onnx.axis_atoms import BATCH, OnnxResult, laid, with_axes
from edgefl.models.onnx.onnx_call import Constant, OnnxCall

FUNCTIONS = {
    "Add": "{} + {}", "Sub": "{} - {}", "Mul": "{} * {}", "Div": "{} / {}", "Pow": "{} ** {}",
    "Max": "maximum({}, {})", "Min": "minimum({}, {})", "Exp": "exp({})", "Log": "log({})", "Sqrt": "sqrt({})",
    "Sin": "sin({})", "Cos": "cos({})", "Abs": "abs({})", "Reciprocal": "1 / {}", "Where": "where({}, {}, {})",
    "Less": "{} < {}", "LessOrEqual": "{} <= {}", "Greater": "{} > {}", "GreaterOrEqual": "{} >= {}",
    "Equal": "{} == {}", "And": "{} * {}", "Or": "maximum({}, {})", "Not": "1 - {}",
}  # fmt: skip
"""The expression of each operator. Comparisons are 1 or 0, so And, Or and Not are arithmetic."""

KINDS = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min"}
MOST_EXTENTS = 3

Reader = Callable[[OnnxCall], OnnxResult]


def or_expression(reader: Reader) -> Reader:
    """Return a reader that takes an expression or a reduction where the given reader refuses the node. A function of
    an expression's result is an expression, too, so that both can be joined.
    """

    def read(call: OnnxCall) -> OnnxResult:
        if _continues(call):
            try:
                return expression(call)
            except GraphError:
                pass
        try:
            return reader(call)
        except GraphError as refused:
            try:
                return (reduction if call.node.operator in KINDS else expression)(call)
            except GraphError:
                raise refused from None

    return read


def _continues(call: OnnxCall) -> bool:
    """Return whether a sum, a difference, a product or a quotient reads the result of an expression."""
    values = [each for each in call.inputs if isinstance(each, OnnxResult)]
    drafts = [call.assembly.drafts.get(value.name) for value in values]
    return call.node.operator in FUNCTIONS and any(
        draft is not None and isinstance(draft.op, Elementwise) for draft in drafts
    )


def expression(call: OnnxCall) -> OnnxResult:
    """Read a function of single values of one to three inputs. Constants of one value are numbers in the expression."""
    form = FUNCTIONS[call.node.operator]
    if len(call.inputs) != form.count("{}"):
        raise GraphError(f"{len(call.inputs)} inputs; expected {form.count('{}')}")
    values, parts = list[OnnxResult](), list[str]()
    for at, each in enumerate(call.inputs):
        if isinstance(each, Constant):
            parts.append(f"({_number(call.constant(at))!r})")
        else:
            value = call.value(at)
            values += [] if value in values else [value]
            parts.append("abc"[values.index(value)])
    return combined(call, form.format(*parts), values)


def _number(constant: Constant) -> float:
    if constant.array.size != 1:
        raise GraphError(f"a constant of shape {constant.array.shape}; expected one number")
    number = float(constant.array.reshape(()))
    if not math.isfinite(number):
        raise GraphError(f"the constant {number}; expected a finite number")
    return number


def combined(call: OnnxCall, form: str, values: Sequence[OnnxResult]) -> OnnxResult:
    """Add an expression of values, which are repeated along axes of extent 1. The result lies in memory as the largest
    value does.
    """
    rank = max(value.rank for value in values)
    values = [with_axes(value, range(rank - value.rank)) if value.rank < rank else value for value in values]
    largest = max(values, key=lambda value: math.prod(value.extents))
    batch = largest.axes.index((BATCH,)) if (BATCH,) in largest.axes else -1
    sizes = [max(extents) for extents in zip(*(value.extents for value in values), strict=True)]
    for value in values:
        is_fitting = all(own in (1, size) for own, size in zip(value.extents, sizes, strict=True))
        if batch < 0 or value.axes[batch] != (BATCH,) or not is_fitting:
            shown = ", ".join(map(str, values))
            raise GraphError(f"{shown}; expected equal extents, or 1, and the batch at one place")
    order = [at for at in largest.others if largest.axes[at]]
    order = sorted(order, key=lambda at: largest.axes[at])
    order += [at for at in range(rank) if at not in order and at != batch and sizes[at] > 1]
    groups = _grouped(order, lambda at: tuple(bool(value.axes[at]) for value in values))
    names = [
        call.assembly.placed(value, [tuple(atom for at in group for atom in value.axes[at]) for group in groups])
        for value in values
    ]
    name = call.assembly.add(Elementwise(form), names)
    return laid(name, call.assembly.shape(name), [(at, sizes[at]) for at in order], rank, largest.batch, batch)


def reduction(call: OnnxCall) -> OnnxResult:
    """Read a sum, a mean or an extreme along axes that are not the batch."""
    value, axes = call.value(), call.integers("axes", 1)
    if not axes:
        raise GraphError("a reduction over all axes, with the batch; expected axes")
    gone = {value.axis(at) for at in axes}
    if not gone <= set(value.others):
        raise GraphError(f"a reduction over the batch of {value}; expected other axes")
    order = sorted((at for at in value.others if value.axes[at]), key=lambda at: value.axes[at])
    groups = _grouped(order, lambda at: at in gone)
    if chosen := tuple(place for place, group in enumerate(groups) if group and group[0] in gone):
        held = call.assembly.placed(value, [tuple(atom for at in group for atom in value.axes[at]) for group in groups])
        name = call.assembly.add(Reduce(KINDS[call.node.operator], chosen), (held,))
        memory = [(at, value.extents[at]) for at in order if at not in gone]
        at = value.axes.index((BATCH,))
        value = laid(name, call.assembly.shape(name), memory, value.rank, value.batch, at)
    if call.attribute("keepdims", 1):
        return value
    return replace(value, axes=tuple(axis for at, axis in enumerate(value.axes) if at not in gone))


def _grouped(order: Sequence[int], kind: Callable[[int], object]) -> list[list[int]]:
    """Return the axes in at most 3 groups. Neighbours of one kind are joined where there are more axes."""
    if len(order) <= MOST_EXTENTS:
        return [[at] for at in order] or [[]]
    groups = list[list[int]]()
    for at in order:
        if groups and kind(groups[-1][-1]) == kind(at):
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups

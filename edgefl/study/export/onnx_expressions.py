"""Elementwise and Reduce as ONNX operators: a node for each step of an expression."""

from __future__ import annotations

from edgefl.kernels.expression_steps import MOST_INPUTS
from edgefl.models.graph.expression import parsed
from edgefl.models.graph.operations import Elementwise, Reduce
from edgefl.study.export.onnx_file import FLOAT, Writer

OPERATORS = {
    "sum": "Add", "difference": "Sub", "product": "Mul", "quotient": "Div", "larger": "Max", "smaller": "Min",
    "power": "Pow", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "magnitude": "Abs",
}  # fmt: skip
COMPARISONS = {"less": "Less", "less_equal": "LessOrEqual", "equal": "Equal"}
EXTREMES = {"mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}  # have their axes as an attribute in opset 17


def expression(op: Elementwise, inputs: list[str], to: Writer) -> str:
    found = parsed(op.expression)
    names = dict(enumerate(inputs))
    for number, step in enumerate(found.steps, start=MOST_INPUTS):
        reads = [names[each] for each in step.reads]
        if step.name == "constant":
            names[number] = to.constant(f"constant{number}", step.value)
        elif step.name == "choice":
            names[number] = to.node("Where", to.node("Cast", reads[0], to=9), *reads[1:])  # 9 is the type bool
        elif step.name in COMPARISONS:
            names[number] = to.node("Cast", to.node(COMPARISONS[step.name], *reads), to=FLOAT)
        else:
            names[number] = to.node(OPERATORS[step.name], *reads)
    return names[found.last] if found.last >= MOST_INPUTS else to.node("Identity", names[found.last])


def reduction(op: Reduce, inputs: list[str], to: Writer) -> str:
    axes = [axis + 1 for axis in op.axes]
    if op.kind == "sum":
        return to.node("ReduceSum", *inputs, to.constant("axes", axes), keepdims=1)
    return to.node(EXTREMES[op.kind], *inputs, axes=axes, keepdims=1)

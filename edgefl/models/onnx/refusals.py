"""The sentences about a file that edgefl refuses. They name nodes, count nodes like them, and say what to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from edgefl.models.onnx.onnx_call import Cause
from edgefl.models.onnx.onnx_content import OnnxNode

CUT = "cut the file before it with onnx.utils.extract_model"
QUANTISED = "export the float32 model before it is quantised"
BRANCH = "export the branch that is taken, without control flow"
REMEDIES = {
    **dict.fromkeys(("ArgMax", "ArgMin", "TopK", "NonMaxSuppression", "ZipMap", "OneHot", "NonZero"), CUT),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
                     "ConvInteger", "MatMulInteger"), QUANTISED),
    **dict.fromkeys(("If", "Loop", "Scan"), BRANCH),
    "Selu": "use Elu or Relu",
    "Softsign": "use Tanh",
    "LRN": "use BatchNormalization",
    "LpNormalization": "use LayerNormalization",
}  # fmt: skip
"""The advice for operators that edgefl lacks, by name."""

PARTS = ("Softmax", "LogSoftmax", "Erf")
"""Operators that have a meaning only within patterns. Behind a value that cannot be had, they are not a cause."""


def unknown(node: OnnxNode) -> Cause:
    """Return the cause for an operator that edgefl does not have."""
    remedy = REMEDIES.get(node.operator, "write it with operators that docs/models.md lists")
    return Cause(node, f"edgefl has no operation for it; {remedy}")


def lines(causes: Sequence[Cause]) -> list[str]:
    """Return one line for each kind of cause, with the first node of the kind and the number of nodes like it."""
    kinds = Counter((cause.node.operator, cause.problem) for cause in causes)
    firsts = {(cause.node.operator, cause.problem): cause for cause in reversed(causes)}
    return [_line(firsts[kind], count) for kind, count in kinds.items()]


def _line(cause: Cause, count: int) -> str:
    more = f" ({count - 1} more nodes like it)" if count > 1 else ""
    return f"{cause.node}: {cause.problem}{more}"


def refusal(causes: Sequence[Cause]) -> str:
    """Return one sentence with the first causes, which says how to see all of them."""
    found = lines(causes)
    rest = len(found) - 1
    more = f"; {rest} more kinds of nodes are refused, and --explain lists them" if rest else ""
    return found[0] + more

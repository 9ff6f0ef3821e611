"""Lowers the products of a layer whose weight is there as values alone; see sparse_weight.py for what that is."""

from __future__ import annotations

from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Param, Structure, StructureKind, Tensor
from edgefl.learning.lowering.sparse_weight import SparseWeight
from edgefl.models.graph.operations import Conv2d


def forward(recorder: Recorder, weight: SparseWeight, x: Tensor, bias: Param | None, y: Tensor) -> None:
    name, values = _name(weight), _values(weight)
    recorder.call(
        f"{_family(weight)}_forward", x, Structure("structure", name), values, bias, y, *_geometry(weight, x, y)
    )


def grad_weight(recorder: Recorder, weight: SparseWeight, x: Tensor, dy: Tensor) -> Tensor:
    """The gradient in the order of the values."""
    gradients, structure = recorder.new((weight.count,)), Structure("structure", _name(weight))
    recorder.call(f"{_family(weight)}_grad_weight", x, dy, structure, gradients, *_geometry(weight, x, dy))
    return gradients


def grad_input(recorder: Recorder, weight: SparseWeight, dy: Tensor, dx: Tensor) -> None:
    """The values are brought into the order of the transposed structure first, once in a step."""
    name, family = _name(weight), _family(weight)
    values: Param | Tensor = _values(weight)
    kind: StructureKind = "structure"
    if weight.has_transposed:
        turned = recorder.new((weight.count,))
        recorder.call("permute", values, Structure("order_t", name), turned)
        values, kind = turned, "structure_t"
    recorder.call(f"{family}_grad_input", dy, Structure(kind, name), values, dx, *_geometry(weight, dx, dy))


def _family(weight: SparseWeight) -> str:
    return f"sparse_{weight.op}"


def _geometry(weight: SparseWeight, x: Tensor, y: Tensor) -> tuple[tuple[int, int] | int, ...]:
    """Of a convolution its window, and how x and y, or their gradients, lie."""
    op = weight.node.op
    if not isinstance(op, Conv2d):
        return ()
    return op.kernel_size, op.stride, op.padding, op.dilation, x.lanes, y.lanes


def _name(weight: SparseWeight) -> str:
    return f"{weight.node.name}.weight"


def _values(weight: SparseWeight) -> Param:
    return Param(_name(weight), (weight.count,))

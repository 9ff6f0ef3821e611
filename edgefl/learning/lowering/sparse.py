"""The lowering of the products of a layer whose weight exists as values alone (sparse_weight.py)."""

from __future__ import annotations

from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Param, Structure, StructureKind, Tensor
from edgefl.learning.lowering.sparse_weight import SparseWeight
from edgefl.models.graph.operations import Conv2d


def forward(recorder: Recorder, weight: SparseWeight, x: Tensor, bias: Param | Tensor | None, y: Tensor) -> None:
    name, values = _name(weight), _values(weight)
    recorder.call(
        f"{_family(weight)}_forward", x, Structure("structure", name), values, bias, y, *_geometry(weight, x, y)
    )


def grad_weight(recorder: Recorder, weight: SparseWeight, x: Tensor, dy: Tensor) -> Tensor:
    """Record the gradient of the weight, in the order of the values, and return it."""
    gradients, structure = recorder.new((weight.count,)), Structure("structure", _name(weight))
    recorder.call(f"{_family(weight)}_grad_weight", x, dy, structure, gradients, *_geometry(weight, x, dy))
    return gradients


def grad_input(recorder: Recorder, weight: SparseWeight, dy: Tensor, dx: Tensor) -> None:
    """Record the gradient of the input. Once in a step, the values are first put into the order of the transposed
    structure.
    """
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
    """Return the window of a convolution and the lanes of x and y, or of their gradients. Return () for a
    Linear layer.
    """
    op = weight.node.op
    if not isinstance(op, Conv2d):
        return ()
    return op.kernel_size, op.stride, op.padding, op.dilation, x.lanes, y.lanes


def _name(weight: SparseWeight) -> str:
    return weight.node.full_name("weight")


def _values(weight: SparseWeight) -> Param:
    return Param(_name(weight), (weight.count,))

"""The calls that stand for Elementwise and Reduce in a lifted graph, and what they are in a graph of edgefl."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.fx import Node as Traced

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Add, Elementwise, Flatten, Operation, Reduce, Reshape
from edgefl.torch.axis_order import Value
from edgefl.torch.shape_table import SHAPING, AxisConversion
from edgefl.torch.traced_call import Step


def elementwise(expression: str, *inputs: Tensor) -> Tensor:
    """Stand in a graph for an expression of results (graph/expression.py)."""
    raise GraphError(f"elementwise {expression!r} has no value; expected a graph that is converted")


def reduction(input: Tensor, kind: str, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """Stand in a graph for a sum, a mean or an extreme along torch's axes."""
    raise GraphError(f"reduction {kind!r} has no value; expected a graph that is converted")


def expression_step(expression: str, *inputs: Traced) -> Step:
    return Step((Elementwise(expression),), inputs)


def reduced(value: Value, kind: str, dims: tuple[int, ...], keepdim: bool) -> AxisConversion:
    """Return the conversion of a reduction along torch's axes, none of which is the batch."""
    over = sorted(value.axes[dim] for dim in dims)
    if not over or over[0] == 0:
        raise GraphError(f"dim={dims}; expected axes without the batch")
    op = Reduce(kind, tuple(axis - 1 for axis in over))
    if keepdim:
        return AxisConversion(value.axes, (op,), value.axes)
    return AxisConversion(value.axes, (op, *_without(value, over)), _renumbered(value, over))


def _without(value: Value, over: list[Any]) -> tuple[Operation, ...]:
    """Return the view that leaves out the reduced axes."""
    sizes = [size for axis, size in enumerate(value.shape, start=1) if axis not in over]
    if len(sizes) == len(value.shape):
        return ()
    return (Reshape(tuple(sizes[1:])) if len(sizes) > 1 else Flatten(),)


def _renumbered(value: Value, over: list[Any]) -> tuple[int, ...]:
    kept = [axis for axis in value.axes if axis not in over]
    return tuple(sorted(kept).index(axis) for axis in kept)


def broadcasting(op: Operation, values: tuple[Value, ...]) -> Elementwise | None:
    """Return the expression that stands for a sum or product whose results broadcast otherwise than Add and Mul do."""
    try:
        op.output(*(value.shape for value in values))
    except GraphError:
        return Elementwise("a + b" if isinstance(op, Add) else "a * b")
    return None


SHAPES: dict[Any, Callable[..., AxisConversion]] = {**SHAPING, reduction: reduced}
"""The table SHAPING together with the reductions."""

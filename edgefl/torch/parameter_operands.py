"""The second operand of a sum or product that does not depend on the input: a parameter, a buffer, or a constant.

A constant becomes a frozen parameter of the graph. bare_parameters.py says which operation combines a parameter with a
result, and graph_converter.py walks the calls.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import torch
from torch import Tensor

from edgefl.errors import GraphError
from edgefl.models.graph.operations import WithParameter
from edgefl.torch.axis_order import Value, with_channels
from edgefl.torch.bare_parameters import combined
from edgefl.torch.call_sources import Calls
from edgefl.torch.graph_builder import Builder

CONSTANT = "constant-"  # how the name of a frozen parameter begins that no state_dict of the module has


class Operand(NamedTuple):
    """The operation that combines an operand with a result, the result as the operation reads it, and a node's name."""

    op: WithParameter
    value: Value
    name: str


def operand(kind: type[WithParameter], seen: Tensor, value: Value, calls: Calls, build: Builder, free: str) -> Operand:
    """Return the operation for an operand.

    kind    AddParameter or MulParameter
    seen    the operand as forward broadcasts it over the value
    free    name for a constant's node, if it is not taken
    Raises  GraphError for an operand that is part of a parameter, or that has no place in the graph
    """
    name = calls.names.get(seen.data_ptr(), "")
    whole = calls.tensor(name) if name else seen
    if name in calls.parameters:
        if seen.numel() != whole.numel():
            raise GraphError(f"values of shape {tuple(seen.shape)}; expected a whole parameter")
        if name in build.taken and calls.constants is None:
            raise GraphError(f"parameter {name!r} used twice; edgefl has no shared weights")
        return _of_parameter(kind, whole, seen, value, build, name)
    if calls.constants is None:
        raise GraphError(f"values of shape {tuple(seen.shape)}; expected a whole parameter")
    if name and seen.numel() == whole.numel() and whole.dtype == torch.float32 and name not in calls.constants:
        try:
            found = _of_parameter(kind, whole, seen, value, build, name)
        except GraphError:
            return _of_constant(kind, seen, value, calls, build, free)
        calls.constants[name] = whole
        return found
    return _of_constant(kind, seen, value, calls, build, free)


def _of_parameter(
    kind: type[WithParameter], whole: Tensor, seen: Tensor, value: Value, build: Builder, name: str
) -> Operand:
    long = [dim for dim in range(-seen.dim(), 0) if seen.shape[dim] > 1]
    if len(long) == 1 and -long[0] <= len(value.axes):
        value = build.placed(value, with_channels(value.axes, long[0]))
    op = combined(kind, whole, seen, value)
    op.output(value.shape)
    node = free_name(re.sub(r"[^A-Za-z0-9_.]", "_", name), build)
    if node != name:
        build.named[node] = (("", name),)
    return Operand(op, value, node)


def free_name(name: str, build: Builder) -> str:
    """Return the first of name, name_1, name_2, ... that no node has."""
    node, count = name, 0
    while node in build.taken:
        count += 1
        node = f"{name}_{count}"
    return node


def _of_constant(
    kind: type[WithParameter], seen: Tensor, value: Value, calls: Calls, build: Builder, free: str
) -> Operand:
    """Return the operation for a constant, as values for each channel or for each value of an example."""
    sizes = [size if isinstance(size, int) else 1 for size in value.extents]
    try:
        laid = seen.to(torch.float32).broadcast_to(sizes)
    except RuntimeError:
        found, expected = tuple(seen.shape), tuple(sizes[1:])
        raise GraphError(
            f"a constant of shape {found} with a result of {expected}; expected equal extents, or 1"
        ) from None
    if not laid.isfinite().all():
        raise GraphError("a constant that is not finite; expected finite numbers")
    own = laid.permute([value.axes.index(axis) for axis in range(len(sizes))])[0]
    rows = own.flatten(1)[:, :1] if own.dim() > 1 else own
    if own.dim() > 1 and bool((own.flatten(1) == rows).all()):
        own = rows[:, 0]
    node = free_name(free, build)
    assert calls.constants is not None
    name = f"{CONSTANT}{node}"
    calls.constants[name] = own.contiguous()
    build.named[node] = (("", name),)
    return Operand(kind(tuple(own.shape)), value, node)

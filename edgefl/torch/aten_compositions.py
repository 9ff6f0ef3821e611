"""The table ATEN_COMPOSITIONS: ATen operations that become several operations which a graph has.

A magnitude is the sum of two rectified values. A sum along an axis is a Linear layer of constant ones. Parts of an axis
are ranges of it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from edgefl.errors import GraphError
from edgefl.torch.aten_layers import BARE
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.traced_call import expect


def _magnitude(lift: Lifting, input: fx.Node) -> Any:
    value = lift.lifted(input)
    negative = lift.call(torch.mul, value, lift.constant(torch.tensor(-1.0)))
    return lift.call(torch.add, lift.call(torch.relu, value), lift.call(torch.relu, negative))


def _sum(lift: Lifting, input: fx.Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    expect("dtype", dtype, None)
    rank, dims = input.meta["val"].dim(), [dim] if isinstance(dim, int) else list(dim or ())
    if len(dims) != 1 or dims[0] % rank == 0:
        raise GraphError(f"dim={dim!r}; expected one axis that is not the batch")
    at, length = dims[0] % rank, lift.extents(input)[dims[0]]
    value = lift.lifted(input)
    turned = value if at == rank - 1 else lift.call(torch.transpose, value, at, rank - 1)
    layer = nn.Linear(length, 1, False, **BARE)
    total = lift.layer(layer, {"weight": torch.ones(1, length)}, turned, name="sum")
    total = total if at == rank - 1 else lift.call(torch.transpose, total, at, rank - 1)
    return total if keepdim else lift.call(torch.squeeze, total, at)


def _ranges(lift: Lifting, input: fx.Node, sizes: list[int], dim: int) -> Any:
    """Return the first of several ranges of an axis, and keep all of them."""
    at, start, value = dim % input.meta["val"].dim(), 0, lift.lifted(input)
    found = []
    for size in sizes:
        whole = (slice(None),) * at
        found.append(lift.call(operator.getitem, value, (*whole, slice(start, start + size))))
        start += size
    lift.several[lift.node] = tuple(found)
    return found[0]


def _split(lift: Lifting, input: fx.Node, size: Any, dim: int = 0) -> Any:
    length = lift.extents(input)[dim]
    sizes = list(size) if isinstance(size, list | tuple) else _parts(length, int(size))
    return _ranges(lift, input, sizes, dim)


def _chunk(lift: Lifting, input: fx.Node, chunks: int, dim: int = 0) -> Any:
    length = lift.extents(input)[dim]
    return _ranges(lift, input, _parts(length, -(-length // chunks)), dim)


def _parts(length: int, size: int) -> list[int]:
    """Return the lengths of parts of `size`, of which the last may be shorter."""
    return [min(size, length - start) for start in range(0, length, size)]


def _unbind(lift: Lifting, input: fx.Node, dim: int = 0) -> Any:
    value, at = lift.lifted(input), dim % input.meta["val"].dim()
    found = [lift.call(torch.select, value, at, index) for index in range(lift.extents(input)[dim])]
    lift.several[lift.node] = tuple(found)
    return found[0]


ATEN_COMPOSITIONS: dict[str, Entry] = {
    "abs": _magnitude,
    "sum": _sum,
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "unbind": _unbind,
}
"""The calls for ATen operations, by the name of the operation without its overload."""

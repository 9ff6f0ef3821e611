"""The table ATEN_COMPOSITIONS: ATen operations that become several operations which a graph has.

Parts of an axis are ranges of it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from edgefl.torch.aten_lifting import Entry, Lifting


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
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "unbind": _unbind,
}
"""The calls for ATen operations, by the name of the operation without its overload."""

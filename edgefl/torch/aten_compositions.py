"""The table ATEN_COMPOSITIONS: ATen operations that become several operations which a graph has.

Parts of an axis are ranges of it. A product of two results is an expression and a sum.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.torch.aten_layers import ATEN_LAYERS
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.expression_calls import elementwise, reduction
from edgefl.torch.followed_moves import MOST_RANK

MOST_TERMS = 1 << 16  # products of single values that a product of two results may have for each example
MOST_RUNS = 64  # runs of neighbouring places, each of which is one operation


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
    if input.meta["val"].dim() > MOST_RANK:
        raise GraphError(f"parts of a view of {input.meta['val'].dim()} axes; expected at most {MOST_RANK} axes")
    found = [lift.call(torch.select, value, at, index) for index in range(lift.extents(input)[dim])]
    lift.several[lift.node] = tuple(found)
    return found[0]


def _stack(lift: Lifting, tensors: list[fx.Node], dim: int = 0) -> Any:
    at = dim % (tensors[0].meta["val"].dim() + 1)
    if at == 0:
        raise GraphError("dim=0 is the batch; expected another axis")
    return lift.call(torch.cat, [lift.call(torch.unsqueeze, lift.lifted(each), at) for each in tensors], at)


def _product(lift: Lifting, input: fx.Node, other: fx.Node) -> Any:
    """Return the products of the rows of two results [batch, rows, inner] and [batch, inner, cols]."""
    sizes = [lift.extents(each) for each in (input, other)]
    if any(len(each) != 3 for each in sizes) or sizes[0][0] != sizes[1][0]:
        raise GraphError(f"a product of results of shapes {sizes[0][1:]} and {sizes[1][1:]}; expected two matrices")
    terms = math.prod(sizes[0][1:]) * sizes[1][2]
    if terms > MOST_TERMS:
        raise GraphError(f"a product of results with {terms} terms for each example; expected at most {MOST_TERMS}")
    rows = lift.call(torch.unsqueeze, lift.lifted(input), 2)
    cols = lift.call(torch.unsqueeze, lift.call(torch.transpose, lift.lifted(other), 1, 2), 1)
    return lift.call(reduction, lift.call(elementwise, "a * b", rows, cols), "sum", (3,), False)


def matrix_product(lift: Lifting, input: fx.Node, other: fx.Node) -> Any:
    """Return a product of two results, or the Linear layer of a result and a parameter."""
    both = lift.is_value(input) and lift.is_value(other)
    return (_product if both else ATEN_LAYERS["matmul"])(lift, input, other)


def _index(lift: Lifting, input: fx.Node, indices: list[Any]) -> Any:
    """Return values at constant places of all axes behind the batch, such as a triangle of a matrix."""
    sizes = lift.extents(input)
    if indices[:1] != [None] or None in indices[1:] or len(indices) != len(sizes):
        raise GraphError("values at computed places of some axes; expected constant places of all axes but the batch")
    places = torch.broadcast_tensors(*(torch.as_tensor(lift.known(each)) for each in indices[1:]))
    if places[0].dim() != 1 or places[0].dtype != torch.int64:
        raise GraphError(f"places {places[0].dtype} of {places[0].dim()} axes; expected a list of whole numbers")
    flat = torch.zeros_like(places[0])
    for place, size in zip(places, sizes[1:], strict=True):
        flat = flat * size + place % size
    features = lift.call(torch.flatten, lift.lifted(input), 1)
    runs = _runs(flat.tolist())
    if len(runs) > MOST_RUNS:
        raise GraphError(f"values at places in {len(runs)} runs of neighbours; expected at most {MOST_RUNS} runs")
    found = [lift.call(torch.narrow, features, 1, start, length) for start, length in runs]
    return found[0] if len(found) == 1 else lift.call(torch.cat, found, 1)


def _roll(lift: Lifting, input: fx.Node, shifts: Any, dims: Any = ()) -> Any:
    """Return positions shifted around the ends of axes."""
    value, sizes = lift.lifted(input), lift.extents(input)
    pairs = zip(*(each if isinstance(each, list | tuple) else [each] for each in (shifts, dims)), strict=True)
    for shift, dim in pairs:
        at, size = dim % len(sizes), sizes[dim]
        if at == 0:
            raise GraphError("a shift along the batch; expected a shift along another axis")
        if behind := shift % size:
            parts = ((size - behind, behind), (0, size - behind))
            value = lift.call(torch.cat, [lift.call(torch.narrow, value, at, *part) for part in parts], at)
    return value


def _pad(lift: Lifting, input: fx.Node, pad: list[int], mode: str = "constant", value: Any = None) -> Any:
    """Return zeros around planes, whose channels may be last."""
    found = lift.lifted(input)
    if not any(pad):
        return found
    if len(pad) == 6 and pad[:2] == [0, 0] and input.meta["val"].dim() == 4:
        found = lift.call(functional.pad, lift.call(torch.permute, found, 0, 3, 1, 2), pad[2:], mode, value)
        return lift.call(torch.permute, found, 0, 2, 3, 1)
    return lift.call(functional.pad, found, pad, mode, value)


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Return the starts and the lengths of runs of neighbouring places."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and place == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((place, 1))
    return found


ATEN_COMPOSITIONS: dict[str, Entry] = {
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "unbind": _unbind,
    "stack": _stack,
    "bmm": _product,
    "index": _index,
    "roll": _roll,
    "pad": _pad,
}
"""The calls for ATen operations, by the name of the operation without its overload."""

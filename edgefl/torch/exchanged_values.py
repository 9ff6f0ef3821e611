"""Values that forward moves by views and permutations of more axes than a graph has, as exchanges of three axes.

A channel shuffle makes such a view, [batch, groups, channels / groups, height, width]. Where its
values end is found by moving the numbers 0, 1, 2, ... in their place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.torch.moved_values import SizedGraph

MOST_AXES = 3  # axes that a graph exchanges, without the batch
MOST_EXCHANGES = 2  # exchanges of three blocks of axes, the batch apart


def exchanged(lift: SizedGraph, source: fx.Node, places: Tensor, windows: int = 1) -> fx.Node:
    """Return the call for the values of a node in another order.

    source   node whose values are moved
    places   for each value of the result, the number of this value in the source
    windows  number of windows that the source's first axis has for each example
    Raises   GraphError for an order that is no permutation of axes of each example
    """
    batch, own = lift.extents(source)[0] // windows, places.reshape(len(places), -1)
    count = math.prod(lift.extents(source)[1:]) * windows
    rows = own[0][None] + count * torch.arange(len(places))[:, None]
    if len(places) != batch or own.shape[1] != count or not torch.equal(own, rows):
        raise GraphError("views of more than four axes that drop values or merge the batch; expected a permutation")
    runs = _runs(own[0].tolist())
    order = sorted(range(len(runs)), key=lambda at: -runs[at][1])
    sizes = [runs[at][0] for at in order]
    if [runs[at][1] for at in order] != [math.prod(sizes[number + 1 :]) for number in range(len(order))]:
        raise GraphError("views of more than four axes that repeat values; expected a permutation")
    value = lift.lifted(source)
    for blocks in exchanges(tuple(order.index(at) for at in range(len(runs)))):
        extents = [math.prod(sizes[axis] for axis in block) for block in blocks.before]
        value = lift.call(torch.reshape, value, -1, *extents)
        value = lift.call(torch.permute, value, 0, *(at + 1 for at in blocks.order))
    return lift.call(torch.reshape, value, -1, *places.shape[1:])


class Exchange(NamedTuple):
    """A permutation of up to three blocks of neighbouring axes.

    before  axes of each block, in their order before it
    order   block at each place after it
    """

    before: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]


@lru_cache(maxsize=64)
def exchanges(wanted: tuple[int, ...]) -> tuple[Exchange, ...]:
    """Return the fewest exchanges of three blocks that bring the axes 0, 1, 2, ... into an order.

    Raises  GraphError where more than MOST_EXCHANGES are needed
    """
    start = tuple(range(len(wanted)))
    if 1 < len(wanted) <= MOST_AXES:
        return (Exchange(tuple((axis,) for axis in start), wanted),)
    known: dict[tuple[int, ...], tuple[Exchange, ...]] = {start: ()}
    for _ in range(MOST_EXCHANGES):
        if wanted in known:
            break
        for axes, found in list(known.items()):
            for exchange in _each_exchange(axes):
                after = tuple(axis for at in exchange.order for axis in exchange.before[at])
                known.setdefault(after, (*found, exchange))
    if wanted not in known:
        raise GraphError(
            f"views that exchange {len(wanted)} axes; expected at most {MOST_EXCHANGES} exchanges of three"
        )
    return known[wanted]


def _each_exchange(axes: tuple[int, ...]) -> Iterator[Exchange]:
    """Yield the exchanges of two or three blocks of these axes."""
    count = len(axes)
    for first in range(1, count):
        yield Exchange((axes[:first], axes[first:]), (1, 0))
        for second in range(first + 1, count):
            blocks = (axes[:first], axes[first:second], axes[second:])
            yield from (Exchange(blocks, order) for order in permutations(range(3)) if order != (0, 1, 2))


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Return the extents and strides of the axes along which numbers are evenly apart, the outermost axis first."""
    found: list[tuple[int, int]] = []
    while len(places) > 1:
        step = places[1] - places[0]
        length = next((at for at in range(1, len(places)) if places[at] - places[at - 1] != step), len(places))
        expected = [first + step * at for first in places[::length] for at in range(length)]
        if step < 1 or len(places) % length or expected != places:
            raise GraphError("views of more than four axes in an irregular order; expected a permutation of axes")
        found.insert(0, (length, step))
        places = places[::length]
    return found

"""Values that forward moves by views and permutations of more axes than a graph has, as one exchange of three axes.

A channel shuffle makes such a view, [batch, groups, channels / groups, height, width]. Where its
values end is found by moving the numbers 0, 1, 2, ... in their place.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, fx

from edgefl.errors import GraphError
from edgefl.torch.moved_values import SizedGraph

MOST_AXES = 3  # axes that a graph exchanges, without the batch


def exchanged(lift: SizedGraph, source: fx.Node, places: Tensor) -> fx.Node:
    """Return the call for the values of a node in another order.

    source  node whose values are moved
    places  for each value of the result, the number of this value in the source
    Raises  GraphError for an order that is no exchange of three axes of each example
    """
    batch, own = lift.extents(source)[0], places.reshape(len(places), -1)
    count = math.prod(lift.extents(source)[1:])
    rows = own[0][None] + count * torch.arange(len(places))[:, None]
    if len(places) != batch or own.shape[1] != count or not torch.equal(own, rows):
        raise GraphError("views of more than four axes that drop values or merge the batch; expected a permutation")
    runs = _runs(own[0].tolist())
    order = sorted(range(len(runs)), key=lambda at: -runs[at][1])
    if len(runs) > MOST_AXES or [runs[at][1] for at in order] != [
        math.prod(runs[after][0] for after in order[number + 1 :]) for number in range(len(order))
    ]:
        raise GraphError(f"views that exchange {len(runs)} axes; expected at most {MOST_AXES} beside the batch")
    value = lift.call(torch.reshape, lift.lifted(source), -1, *(runs[at][0] for at in order))
    turned = lift.call(torch.permute, value, 0, *(order.index(at) + 1 for at in range(len(runs))))
    return lift.call(torch.reshape, turned, -1, *places.shape[1:])


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

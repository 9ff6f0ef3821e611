"""The order of torch's axes compared with the axes of a graph. Every traced value keeps it as a permutation.

The graph has neurons on axis 1 behind the batch, and torch has them there or last. So permute, transpose and movedim
move no values: they only change the permutation. Values move only where an operation needs its axes in another order
(graph_builder.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from edgefl.models.graph.operations import (
    Add,
    Dropout,
    GaussianNoise,
    LayerNorm,
    Linear,
    Mul,
    Operation,
    PReLU,
    Rectifier,
    Scaler,
    Shape,
    Smooth,
    StochasticDepth,
)

Axes = tuple[int, ...]  # for each torch axis the graph's axis: 0 is the batch, 1 the channels, 2 and 3 the positions
Layout = Callable[[int], Axes]  # takes the number of axes, with the batch, and returns their order

BATCH = "the batch size"  # stands for x.size(0) while shapes are folded
Extents = tuple[int | str, ...]


def first(rank: int) -> Axes:
    """Return the axes with channels first, as in the graph: torch's [B, D, T]."""
    return tuple(range(rank))


def last(rank: int) -> Axes:
    """Return the axes with channels last: torch's [B, T, D]."""
    return (0, *range(2, rank), 1) if rank > 1 else (0,)


def with_channels(axes: Axes, dim: int) -> Axes:
    """Return the axes with the channels at torch's axis `dim`. The batch stays where it is."""
    if axes[dim] in (0, 1):
        return axes
    if axes[0] == 0 and dim % len(axes) == len(axes) - 1:
        return last(len(axes))
    exchanged = {1: axes[dim], axes[dim]: 1}
    return tuple(exchanged.get(axis, axis) for axis in axes)


def time_first(rank: int) -> Axes:
    """Return the axes with positions before the batch: torch's [T, B, D], where batch_first is False."""
    return (*range(2, rank), 0, 1)


class Value(NamedTuple):
    """A traced value.

    name   name of the graph's result
    shape  shape of the graph's result, without the batch
    axes   for each torch axis, the axis of the graph
    """

    name: str
    shape: Shape
    axes: Axes

    @property
    def extents(self) -> Extents:
        """Return the extents of torch's axes."""
        return tuple(self.shape[axis - 1] if axis else BATCH for axis in self.axes)


WANTS: dict[type[Operation], Layout | None] = {Linear: last, Add: None, Mul: None}
"""The layouts with which operations read their inputs, where it is not `first`, by operation.

`None` stands for the layout of the operation's first input.
"""


def wanted(op: Operation) -> Layout | None:
    """Return the axes with which an operation reads its inputs, or None for the axes of its first input."""
    if isinstance(op, Rectifier | Smooth | Dropout | StochasticDepth | Scaler | GaussianNoise) or op == PReLU(1):
        return None
    if isinstance(op, LayerNorm):
        return last if len(op.normalized_shape) == 1 else first
    return WANTS.get(type(op), first)


def moved(axes: Axes, to: Axes) -> Shape:
    """Return the axes of the Permute that takes a value with `axes` to a value with `to`, without the batch."""
    return tuple(axes[to.index(axis)] - 1 for axis in range(1, len(axes)))

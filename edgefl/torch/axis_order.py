"""The order of torch's axes over those of a graph: a permutation that is kept with every traced value, and the order
that operations read.

The graph has neurons on axis 1 behind the batch; torch has them there or last. So permute, transpose and movedim move
nothing: what they say is written down, and values move only where an operation needs them elsewhere (trace.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from edgefl.models.graph.operations import (
    Add,
    Dropout,
    LayerNorm,
    Linear,
    Mul,
    Operation,
    PReLU,
    Rectifier,
    Shape,
    Smooth,
)

Axes = tuple[int, ...]  # of each torch axis the graph's: 0 the batch, 1 the channels, 2 and 3 the places
Layout = Callable[[int], Axes]  # by how many axes there are, the batch among them

BATCH = "the batch size"  # stands for x.size(0) while shapes are folded
Extents = tuple[int | str, ...]


def first(rank: int) -> Axes:
    """Channels first, as in the graph: torch's [B, D, T]."""
    return tuple(range(rank))


def last(rank: int) -> Axes:
    """Channels last: torch's [B, T, D]."""
    return (0, *range(2, rank), 1) if rank > 1 else (0,)


def with_channels(axes: Axes, dim: int) -> Axes:
    """Axes like these with the channels at torch's axis `dim`; the batch stays where it is."""
    if axes[dim] in (0, 1):
        return axes
    if axes[0] == 0 and dim % len(axes) == len(axes) - 1:
        return last(len(axes))
    exchanged = {1: axes[dim], axes[dim]: 1}
    return tuple(exchanged.get(axis, axis) for axis in axes)


def time_first(rank: int) -> Axes:
    """Places before the batch: torch's [T, B, D] where batch_first is False."""
    return (*range(2, rank), 0, 1)


class Value(NamedTuple):
    """A traced value: the name and shape of a graph's result, and how torch's axes lie over its."""

    name: str
    shape: Shape
    axes: Axes

    @property
    def extents(self) -> Extents:
        """The extents of torch's axes."""
        return tuple(self.shape[axis - 1] if axis else BATCH for axis in self.axes)


WANTS: dict[type[Operation], Layout | None] = {Linear: last, Add: None, Mul: None}
"""Which axes an operation reads its inputs with, where not `first`; None: those that its first input has."""


def wanted(op: Operation) -> Layout | None:
    """The axes that an operation reads its inputs with; None: those that its first input has."""
    if isinstance(op, Rectifier | Smooth | Dropout) or op == PReLU(1):
        return None
    if isinstance(op, LayerNorm):
        return last if len(op.normalized_shape) == 1 else first
    return WANTS.get(type(op), first)


def moved(axes: Axes, to: Axes) -> Shape:
    """The Permute of graph axes, without the batch, that takes a value with `axes` to one with `to`."""
    return tuple(axes[to.index(axis)] - 1 for axis in range(1, len(axes)))

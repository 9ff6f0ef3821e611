"""Axes of parameters and results: values that say to which neuron group each index of an axis belongs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class AxisSpec(NamedTuple):
    """An axis of one group. Index a of the axis belongs to neuron a // repeat of the group."""

    group: str
    repeat: int = 1


class JoinedAxis(NamedTuple):
    """An axis of several parts that lie one after another.

    parts  a pair for each part: its group, and its number of indices. The group None stands for indices that belong to
           no group
    """

    parts: tuple[tuple[AxisSpec | None, int], ...]


Axis = AxisSpec | JoinedAxis


def parts_of(axis: Axis | None, size: int) -> tuple[tuple[AxisSpec | None, int], ...]:
    """Return the parts of an axis of `size` indices. It has one part, unless it is a JoinedAxis."""
    return axis.parts if isinstance(axis, JoinedAxis) else ((axis, size),)


def groups_of(axis: Axis | None) -> Iterator[str]:
    """Yield the groups along an axis, in the order of its parts."""
    for part, _ in parts_of(axis, 0):
        if part is not None:
            yield part.group


def repeated(axis: Axis | None, times: int) -> Axis | None:
    """Return the axis with each index repeated `times` times."""
    if isinstance(axis, JoinedAxis):
        return JoinedAxis(tuple((repeat(part, times), size * times) for part, size in axis.parts))
    return repeat(axis, times)


def repeat(axis: AxisSpec | None, times: int) -> AxisSpec | None:
    """Return the axis of one group with each index repeated `times` times. For None it returns None."""
    return axis and AxisSpec(axis.group, axis.repeat * times)


def concatenated(axes: list[tuple[tuple[AxisSpec | None, int], ...]]) -> JoinedAxis:
    """Return one axis whose parts are the parts of several axes, one after another."""
    return JoinedAxis(tuple(part for parts in axes for part in parts))

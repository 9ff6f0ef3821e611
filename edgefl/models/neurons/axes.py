"""Along an axis of a parameter or a result: which neuron group each index belongs to. Values without behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class AxisSpec(NamedTuple):
    """An axis of one group: index a of the axis belongs to neuron a // repeat of the group."""

    group: str
    repeat: int = 1


class JoinedAxis(NamedTuple):
    """An axis of parts that lie one after another.

    parts  of each part its group (None: the part's indices belong to no group) and its number of indices
    """

    parts: tuple[tuple[AxisSpec | None, int], ...]


Axis = AxisSpec | JoinedAxis


def parts_of(axis: Axis | None, size: int) -> tuple[tuple[AxisSpec | None, int], ...]:
    """The parts of an axis of `size` indices: one part, unless the axis is a JoinedAxis."""
    return axis.parts if isinstance(axis, JoinedAxis) else ((axis, size),)


def groups_of(axis: Axis | None) -> Iterator[str]:
    """The groups along an axis, in the order of its parts."""
    for part, _ in parts_of(axis, 0):
        if part is not None:
            yield part.group


def repeated(axis: Axis | None, times: int) -> Axis | None:
    """The axis with each index repeated `times` times."""
    if isinstance(axis, JoinedAxis):
        return JoinedAxis(tuple((repeat(part, times), size * times) for part, size in axis.parts))
    return repeat(axis, times)


def repeat(axis: AxisSpec | None, times: int) -> AxisSpec | None:
    """The axis of one group with each index repeated `times` times; None stays None."""
    return axis and AxisSpec(axis.group, axis.repeat * times)


def concatenated(axes: list[tuple[tuple[AxisSpec | None, int], ...]]) -> JoinedAxis:
    """One axis of the parts of several axes, which lie one after another."""
    return JoinedAxis(tuple(part for parts in axes for part in parts))

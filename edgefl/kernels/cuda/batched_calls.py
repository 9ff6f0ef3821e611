"""Several calls of one kernel as one launch, csrc/cuda/several.cuh. A step updates each parameter, and most are small.

A call waits for other calls of its kernel, as long as no call after it needs what it writes, or writes what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from .launch import PlannedLaunch, Value
from .structs import calls_at_once


class GroupedCall(NamedTuple):
    """The launches of one call, and its arrays, each with whether the call writes it."""

    launches: Sequence[PlannedLaunch]
    arrays: Sequence[tuple[Array, bool]]


def joined(calls: Iterable[GroupedCall]) -> Iterator[PlannedLaunch]:
    """Yield the launches of these calls, in an order that gives equal results."""
    waiting = _PendingCalls()
    for call in calls:
        (kernel,) = {each.kernel for each in call.launches if calls_at_once(each.kernel) > 1} or (None,)
        if not waiting.lets_by(call) or (kernel and not waiting.takes(kernel)):
            yield from waiting.leave()
        if kernel:
            waiting.add(call)
        else:
            yield from call.launches
    yield from waiting.leave()


class _PendingCalls:
    """Calls of one kernel that have not been launched yet."""

    def __init__(self) -> None:
        self._planned: list[PlannedLaunch] = []
        self._arrays: list[tuple[int, int, bool]] = []

    def lets_by(self, call: GroupedCall) -> bool:
        """Return whether this call may be made before the waiting calls."""
        return not self._planned or not any(
            first < last_waiting and first_waiting < last and (is_written or is_written_waiting)
            for first, last, is_written in _extents(call.arrays)
            for first_waiting, last_waiting, is_written_waiting in self._arrays
        )

    def takes(self, kernel: str) -> bool:
        return not self._planned or (self._planned[0].kernel == kernel and len(self._planned) < calls_at_once(kernel))

    def add(self, call: GroupedCall) -> None:
        self._planned += call.launches
        self._arrays += _extents(call.arrays)

    def leave(self) -> Iterator[PlannedLaunch]:
        if self._planned:
            yield _one_launch(self._planned)
        self._planned, self._arrays = [], []


def _extents(arrays: Sequence[tuple[Array, bool]]) -> list[tuple[int, int, bool]]:
    """Return the first byte of each array, the byte after its last, and whether it is written."""
    return [(array.ctypes.data, array.ctypes.data + array.nbytes, is_written) for array, is_written in arrays]


def _one_launch(planned: Sequence[PlannedLaunch]) -> PlannedLaunch:
    kernel, grids = planned[0].kernel, [each.grid[0] for each in planned]
    ends, left = np.cumsum(grids).tolist(), calls_at_once(kernel) - len(planned)
    firsts = [0, *ends, *[ends[-1]] * left]
    fields = [field for each in planned for field in each.fields]
    unused: list[Value] = [None] * (len(planned[0].fields) * left)
    return PlannedLaunch(kernel, (ends[-1], 1, 1), planned[0].threads, (*firsts, *fields, *unused))

"""Sessions that wait while a learner's parameters lie otherwise: whole, or some of them as values at a mask.

A method that restricts a learner for a round, and lets it have all coordinates again to evaluate, changes the layout
twice a round. Schedules depend on a layout and on how many coordinates there are, not on which; so they serve again.
What is bound to memory does not wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from edgefl.learning.lowering.schedule import Existing
from edgefl.learning.lowering.sparse_weight import SparseWeight
from edgefl.learning.running.session import Session

LAYOUTS_KEPT = 2

Sessions = OrderedDict[tuple[object, ...], Session]


class ParameterLayout(NamedTuple):
    """The layout of parameters: names of masked parameters that lie whole, and the weights that exist as
    values alone.
    """

    masked: tuple[str, ...] = ()
    sparse: tuple[SparseWeight, ...] = ()


class SuspendedSessions(NamedTuple):
    """The sessions of a layout, and the bits of masked parameters to which their schedules refer."""

    sessions: Sessions
    masks: dict[str, Existing]

    @property
    def nbytes(self) -> int:
        bits = self.masks.values()
        return sum(each.nbytes for each in bits) + sum(each.index_bytes(bits) for each in self.sessions.values())


class Layouts:
    """The last few that were left."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, SuspendedSessions] = OrderedDict()

    def leave(self, layout: ParameterLayout, sessions: Sessions, masks: dict[str, Existing]) -> None:
        """Put aside what has schedules."""
        if not any(session.schedules for session in sessions.values()):
            return
        for session in sessions.values():
            session.unbind()
        self._waiting[layout] = SuspendedSessions(sessions, masks)
        while len(self._waiting) > LAYOUTS_KEPT:
            self._waiting.popitem(last=False)

    def enter(self, layout: ParameterLayout) -> SuspendedSessions | None:
        """What has waited for this layout, no longer kept here."""
        return self._waiting.pop(layout, None)

    def clear(self) -> None:
        self._waiting.clear()

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._waiting.values())

"""The sessions that wait while a learner's parameters have another layout: all whole, or some as values at a mask.

A method that restricts a learner for a round, and lifts the restriction to evaluate, changes the layout twice a round.
Schedules depend on a layout and on the number of coordinates, and not on which coordinates exist. So waiting schedules
can be used again. What is bound to memory does not wait.
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
    """The layout of parameters: the names of masked parameters that lie whole, and the weights that exist as values
    alone.
    """

    masked: tuple[str, ...] = ()
    sparse: tuple[SparseWeight, ...] = ()

    def sparse_names(self) -> list[str]:
        """Return the names of the weights that exist as values alone."""
        return [weight.node.full_name("weight") for weight in self.sparse]


class SuspendedSessions(NamedTuple):
    """The sessions of a layout, and the bits of masked parameters to which their schedules refer."""

    sessions: Sessions
    masks: dict[str, Existing]

    @property
    def nbytes(self) -> int:
        bits = self.masks.values()
        return sum(each.nbytes for each in bits) + sum(each.index_bytes(bits) for each in self.sessions.values())


class Layouts:
    """The last few layouts that a learner has left, with their sessions."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, SuspendedSessions] = OrderedDict()

    def leave(self, layout: ParameterLayout, sessions: Sessions, masks: dict[str, Existing]) -> None:
        """Keep the sessions of a layout, if any of them has schedules."""
        if not any(session.schedules for session in sessions.values()):
            return
        for session in sessions.values():
            session.unbind()
        self._waiting[layout] = SuspendedSessions(sessions, masks)
        while len(self._waiting) > LAYOUTS_KEPT:
            self._waiting.popitem(last=False)

    def enter(self, layout: ParameterLayout) -> SuspendedSessions | None:
        """Remove and return the sessions that wait for this layout, if any."""
        return self._waiting.pop(layout, None)

    def clear(self) -> None:
        self._waiting.clear()

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._waiting.values())

"""The clients for which a run waits before round 1, and whether anybody is left who takes part."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from edgefl.server.client_links import Clients
from edgefl.server.refusal_register import RefusalRegister


class Attendance:
    """The attendance of a run.

    at_first  number of clients that round 1 waits for, whether they take part or are turned away
    """

    def __init__(self, clients: Clients, refusals: RefusalRegister, wait_for: int) -> None:
        self._clients, self._refusals = clients, refusals
        self.at_first = min(wait_for, clients.count)

    @property
    def wanted(self) -> int:
        """The number of enrolments that round 1 waits for. Clients that were refused at enrolment are not awaited."""
        turned_away = sum(client not in self._clients.capacities for client in self._refusals.clients)
        return max(1, min(self.at_first, self._clients.count - turned_away))

    @property
    def is_early(self) -> bool:
        """True if too few clients have enrolled for round 1."""
        return len(self._clients.capacities) < self.wanted

    @property
    def is_refused_by_all(self) -> bool:
        """True if nobody who has come takes part, and as many have come as round 1 waits for."""
        absent: AbstractSet[int] = self._refusals.clients
        return len(absent) >= max(1, self.at_first) and absent >= self._clients.capacities.keys()

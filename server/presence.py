"""The clients that were present lately: connected now, or heard of within some seconds. Pure: the time comes in."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Set

from edgefl.methods.client_set import ClientSet


class Presence:
    """The enrolled clients, and the time at which the clients that count as present were last heard of.

    within_s  seconds for which a client that has left still counts. None: every client always counts
    At a restart all enrolled clients count as just heard of, because the end of the server broke their connections.
    """

    def __init__(self, within_s: float | None, enrolled: Iterable[int], now: float) -> None:
        self._within_s, self._began = within_s, now
        self._known = array("q", sorted(enrolled))
        self._enrolled: ClientSet | None = None  # the clients of `_known`, until it changes
        self._heard: OrderedDict[int, float] = OrderedDict()  # the client of the earliest time comes first

    def hear(self, client: int, now: float) -> None:
        """Note that the client is there, or was there until now. `now` never falls from call to call."""
        if not self._is_known(client):
            self._known.insert(bisect_left(self._known, client), client)
            self._enrolled = None
        if self._within_s is not None:
            self._heard[client] = now
            self._heard.move_to_end(client)

    @property
    def enrolled(self) -> ClientSet:
        """The clients that were ever heard of."""
        if self._enrolled is None:
            self._enrolled = ClientSet(self._known[:])
        return self._enrolled

    def lately(self, connected: Set[int], now: float) -> ClientSet | None:
        """Return the clients that may be chosen, or None for all clients of the run.

        The steps follow the number of clients that are returned, and not the number of enrolled clients.
        """
        if self._within_s is None:
            return None
        since = now - self._within_s
        if self._began >= since:
            return self.enrolled
        while self._heard and next(iter(self._heard.values())) < since:
            self._heard.popitem(last=False)
        return ClientSet.of({*self._heard, *filter(self._is_known, connected)})

    def _is_known(self, client: int) -> bool:
        at = bisect_left(self._known, client)
        return at < len(self._known) and self._known[at] == client

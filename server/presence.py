"""The times at which clients were last heard of, and what the server knows of them. Pure: the time comes in."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Set

from edgefl.methods.client_set import ClientSet
from edgefl.server.client_choice import ClientChoice
from edgefl.server.client_tags import ClientTags

MARGIN_S = 1.0  # seconds, as differences of times are rounded


class Presence:
    """The time at which every enrolled client was last heard of.

    At a restart all enrolled clients count as just heard of, because the end of the server broke their connections.
    """

    def __init__(self, enrolled: Iterable[int], now: float) -> None:
        self._began = now
        self._known = array("q", sorted(enrolled))
        self._enrolled: ClientSet | None = None  # the clients of `_known`, until it changes
        self._heard: OrderedDict[int, float] = OrderedDict()  # since the beginning. The last time comes last

    def hear(self, client: int, now: float) -> None:
        """Note that the client is there, or was there until now. `now` never falls from call to call."""
        if not self._is_known(client):
            self._known.insert(bisect_left(self._known, client), client)
            self._enrolled = None
        self._heard[client] = now
        self._heard.move_to_end(client)

    @property
    def enrolled(self) -> ClientSet:
        """The clients that were ever heard of."""
        if self._enrolled is None:
            self._enrolled = ClientSet(self._known[:])
        return self._enrolled

    def lately(self, within_s: float, connected: Set[int], now: float) -> ClientSet:
        """Return the clients that are connected now, or were heard of within so many seconds.

        The steps follow the number of clients that are returned, and not the number of enrolled clients.
        """
        since = now - within_s
        if self._began >= since:
            return self.enrolled
        found = set(filter(self._is_known, connected))
        for client, at in reversed(self._heard.items()):
            if at < since:
                break
            found.add(client)
        return ClientSet.of(found)

    def fulfilling(self, choice: ClientChoice, known: ClientTags, connected: Set[int], now: float) -> ClientSet:
        """Return the clients for which the condition holds, by their tags and by when they were heard of.

        Each enrolled client is tested, or each of `lately` where the condition has a limit of `seen`.
        """
        among = self._known if choice.within_s is None else self.lately(choice.within_s + MARGIN_S, connected, now)
        return ClientSet.of(
            client
            for client in among
            if choice.holds(known.values(client, 0.0 if client in connected else now - self._at(client)))
        )

    def _at(self, client: int) -> float:
        return self._heard.get(client, self._began)

    def _is_known(self, client: int) -> bool:
        at = bisect_left(self._known, client)
        return at < len(self._known) and self._known[at] == client

"""The times at which clients were last heard of, and what the server knows of them. Pure: the time comes in."""

from __future__ import annotations

from collections.abc import Iterable, Set

from edgefl.server.client_choice import ClientChoice
from edgefl.server.client_tags import ClientTags


class Presence:
    """The time at which every enrolled client was last heard of.

    At a restart all enrolled clients count as just heard of, because the end of the server broke their connections.
    """

    def __init__(self, enrolled: Iterable[int], now: float) -> None:
        self._heard = dict.fromkeys(enrolled, now)

    def hear(self, client: int, now: float) -> None:
        """Note that the client is there, or was there until now."""
        self._heard[client] = now

    @property
    def enrolled(self) -> frozenset[int]:
        """The clients that were ever heard of."""
        return frozenset(self._heard)

    def lately(self, within_s: float, connected: Set[int], now: float) -> frozenset[int]:
        """Return the clients that are connected now, or were heard of within so many seconds."""
        since = now - within_s
        return frozenset(client for client, at in self._heard.items() if at >= since or client in connected)

    def fulfilling(self, choice: ClientChoice, known: ClientTags, connected: Set[int], now: float) -> frozenset[int]:
        """Return the clients for which the condition holds, by their tags and by when they were heard of."""
        return frozenset(
            client
            for client, at in self._heard.items()
            if choice.holds(known.values(client, 0.0 if client in connected else now - at))
        )

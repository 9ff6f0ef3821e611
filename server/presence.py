"""The clients that were present lately: connected now, or heard of within some seconds. Pure: the time comes in."""

from __future__ import annotations

from collections.abc import Iterable, Set


class Presence:
    """The time at which every enrolled client was last heard of.

    within_s  seconds for which a client that has left still counts. None: every client always counts
    At a restart all enrolled clients count as just heard of, because the end of the server broke their connections.
    """

    def __init__(self, within_s: float | None, enrolled: Iterable[int], now: float) -> None:
        self._within_s = within_s
        self._heard = dict.fromkeys(enrolled, now)

    def hear(self, client: int, now: float) -> None:
        """Note that the client is there, or was there until now."""
        self._heard[client] = now

    @property
    def enrolled(self) -> frozenset[int]:
        """The clients that were ever heard of."""
        return frozenset(self._heard)

    def lately(self, connected: Set[int], now: float) -> frozenset[int] | None:
        """Return the clients that may be chosen, or None for all clients of the run."""
        if self._within_s is None:
            return None
        since = now - self._within_s
        return frozenset(client for client, at in self._heard.items() if at >= since or client in connected)

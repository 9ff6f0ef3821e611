"""The clients that were present lately: connected now, or heard of within some seconds. Pure: the time comes in."""

from __future__ import annotations

from collections.abc import Iterable, Set


class Presence:
    """The time at which every enrolled client was last heard of.

    within_s  seconds for which a client that has left still counts; None: everybody always does
    At a restart all that are enrolled count as just heard of: their connections broke with the server, not with them.
    """

    def __init__(self, within_s: float | None, enrolled: Iterable[int], now: float) -> None:
        self._within_s = within_s
        self._heard = dict.fromkeys(enrolled, now)

    def hear(self, client: int, now: float) -> None:
        """The client is there, or was until now."""
        self._heard[client] = now

    @property
    def enrolled(self) -> frozenset[int]:
        """The clients that were ever heard of."""
        return frozenset(self._heard)

    def lately(self, connected: Set[int], now: float) -> frozenset[int] | None:
        """The clients that may be chosen; None: all of the run."""
        if self._within_s is None:
            return None
        since = now - self._within_s
        return frozenset(client for client, at in self._heard.items() if at >= since or client in connected)

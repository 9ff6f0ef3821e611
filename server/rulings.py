"""Who was planned in which round and what became of it, as far as a device may still ask: not the whole log.

A device has at most one reply that it has not seen dealt with, and answers a later round only after it has. So what
lies before a client's last ruling is never asked for again, and a run of any length needs the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgefl.server.progress import Ruling

KEPT = 4  # last rulings of a client


class Rulings:
    """By client and round: the ruling, or None where no reply has come."""

    def __init__(self, logged: Mapping[tuple[int, int], Ruling | None]) -> None:
        """`logged`: by (round, client), in the order of rounds."""
        self._rounds: dict[int, dict[int, Ruling | None]] = {}
        for (round, client), ruling in logged.items():
            self._rounds.setdefault(client, {})[round] = None
            if ruling is not None:
                self.rule(round, client, ruling)

    def plan(self, round: int, clients: Iterable[int]) -> None:
        """The round has begun with these clients."""
        for client in clients:
            self._rounds.setdefault(client, {})[round] = None

    def is_planned(self, round: int, client: int) -> bool:
        return round in self._rounds.get(client, {})

    def of(self, round: int, client: int) -> Ruling | None:
        """Of a client that was planned there."""
        return self._rounds[client][round]

    def rule(self, round: int, client: int, ruling: Ruling) -> None:
        """The reply has been dealt with."""
        rounds = self._rounds.setdefault(client, {})
        rounds[round] = ruling
        ruled = sorted(r for r, each in rounds.items() if each is not None)
        first = ruled[-KEPT] if len(ruled) > KEPT else ruled[0]
        for r in [r for r in rounds if r < first or (r < ruled[-1] and rounds[r] is None)]:
            del rounds[r]

"""Who was planned in which round and what became of it, as far as a device may still ask: not the whole log.

A device has at most one reply that it has not seen dealt with, and answers a later round only after it has. So what
lies before a client's last ruling is asked for by an older copy of its directory alone, and a run of any length needs
the same memory. Of a client whose loss the server is to accept, everything is remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from edgefl.server.progress import Ruling

KEPT = 4  # last rulings of a client
FORGOTTEN = Ruling("late", "it was dealt with long ago")  # as far as a device asks, which names rounds that it kept


class Rulings:
    """By client and round: the ruling, or None where no reply has come."""

    def __init__(self, logged: Mapping[tuple[int, int], Ruling | None], whole: Collection[int] = ()) -> None:
        """`logged`: by (round, client), in the order of rounds. `whole`: clients of whom nothing is forgotten."""
        self._whole = frozenset(whole)
        self._rounds: dict[int, dict[int, Ruling | None]] = {}
        self._forgotten: dict[int, int] = {}  # by client, rounds before this one
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
        """None where there is none, and FORGOTTEN for what may have been one."""
        found = self._rounds.get(client, {}).get(round)
        return FORGOTTEN if found is None and 0 < round < self._forgotten.get(client, 0) else found

    def rule(self, round: int, client: int, ruling: Ruling) -> None:
        """The reply has been dealt with."""
        rounds = self._rounds.setdefault(client, {})
        rounds[round] = ruling
        if client not in self._whole:
            self._forget(client, rounds)

    def _forget(self, client: int, rounds: dict[int, Ruling | None]) -> None:
        ruled = sorted(r for r, each in rounds.items() if each is not None)
        first = ruled[-KEPT] if len(ruled) > KEPT else ruled[0]
        self._forgotten[client] = first if len(ruled) > KEPT else self._forgotten.get(client, 0)
        for r in [r for r in rounds if r < first or (r < ruled[-1] and rounds[r] is None)]:
            del rounds[r]

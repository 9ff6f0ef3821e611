"""The planned clients of the rounds and the verdicts on their replies, as far as a device may still ask for them. The
whole log is in the store.

A device has at most one reply that it has not seen dealt with, and answers a later round only after it has. So what
lies before a client's last ruling is never asked for again, but whether it kept what it had trained then: a bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from edgefl.methods.rounds.participation import TRAINED
from edgefl.server.run_progress import Ruling

KEPT = 4  # last rulings of a client


class Rulings:
    """By client and round: the ruling, or None where no reply has come."""

    def __init__(self, logged: Mapping[tuple[int, int], Ruling | None], trained: Mapping[int, int]) -> None:
        """`logged`: by (round, client), in the order of rounds; `trained`: see Progress."""
        self._rounds: dict[int, dict[int, Ruling | None]] = {}
        self._trained = dict(trained)
        self._judging: dict[tuple[int, int], str] = {}  # by (round, client), outcomes that are not durable yet
        for (round, client), ruling in logged.items():
            self._rounds.setdefault(client, {})[round] = None
            if ruling is not None:
                self.rule(round, client, ruling)

    def plan(self, round: int, clients: Iterable[int]) -> None:
        """The round has begun with these clients."""
        for client in clients:
            self._rounds.setdefault(client, {})[round] = None

    def is_planned(self, round: int, client: int) -> bool:
        return round in self._rounds.get(client, {}) or self.has_trained(round, client)

    def of(self, round: int, client: int) -> Ruling | None:
        """Of a client that was planned there. What it kept long ago is accepted again, as if it had not been late."""
        known = self._rounds.get(client, {})
        return known[round] if round in known else Ruling("accepted", "")

    def outcome(self, round: int, client: int) -> str | None:
        """Of a client's reply, if one has come and is remembered."""
        ruling = self.of(round, client) if self.is_planned(round, client) else None
        return None if ruling is None else ruling.outcome

    @property
    def clients(self) -> AbstractSet[int]:
        """Those that have kept something that they trained."""
        return self._trained.keys()

    def has_trained(self, round: int, client: int) -> bool:
        """Whether the client kept what it had trained in this round, however long ago."""
        return bool(self._trained.get(client, 0) >> round & 1)

    def last_trained(self, client: int) -> int:
        """The last such round, 0 if there is none."""
        return max(self._trained.get(client, 0).bit_length() - 1, 0)

    def judge(self, round: int, client: int, outcome: str) -> None:
        """The client's reply has been judged; the ruling on it is not durable yet."""
        self._judging[round, client] = outcome

    def is_judging(self, round: int, client: int) -> bool:
        """Whether the client's reply has been judged and the ruling on it is not durable yet."""
        return (round, client) in self._judging

    def keeps_trained(self, round: int, client: int) -> bool:
        """Whether the client keeps what it trained in this round, by a ruling that is durable or by one that is not."""
        return self.has_trained(round, client) or self._judging.get((round, client)) in TRAINED

    def rule(self, round: int, client: int, ruling: Ruling) -> None:
        """The ruling on the client's reply is durable."""
        self._judging.pop((round, client), None)
        rounds = self._rounds.setdefault(client, {})
        rounds[round] = ruling
        if ruling.outcome in TRAINED:
            self._trained[client] = self._trained.get(client, 0) | 1 << round
        ruled = sorted(r for r, each in rounds.items() if each is not None)
        first = ruled[-KEPT] if len(ruled) > KEPT else ruled[0]
        for r in [r for r in rounds if r < first or (r < ruled[-1] and rounds[r] is None)]:
            del rounds[r]

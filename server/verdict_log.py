"""The planned clients of the rounds and the verdicts on their replies, as far as a device may still ask for them. The
whole log is in the store.

A device has at most one reply without a verdict that it knows, and answers a later round only after the verdict. So
nobody asks for rulings before a client's last ruling. For earlier rounds one bit is kept: whether the client kept what
it had trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from edgefl.methods.rounds.participation import TRAINED
from edgefl.server.run_progress import Ruling

KEPT = 4  # number of last rulings of a client that are kept


class Rulings:
    """The rulings by client and round, or None where no reply has come."""

    def __init__(self, logged: Mapping[tuple[int, int], Ruling | None], trained: Mapping[int, int]) -> None:
        """Begin with `logged`, by (round, client) in the order of rounds, and `trained`, as in Progress."""
        self._rounds: dict[int, dict[int, Ruling | None]] = {}
        self._trained = dict(trained)
        self._judging: dict[tuple[int, int], str] = {}  # outcomes by (round, client) that are not durable yet
        for (round, client), ruling in logged.items():
            self._rounds.setdefault(client, {})[round] = None
            if ruling is not None:
                self.rule(round, client, ruling)

    def plan(self, round: int, clients: Iterable[int]) -> None:
        """Note that the round has begun with these clients."""
        for client in clients:
            self._rounds.setdefault(client, {})[round] = None

    def is_planned(self, round: int, client: int) -> bool:
        return round in self._rounds.get(client, {}) or self.has_trained(round, client)

    def of(self, round: int, client: int) -> Ruling | None:
        """Return the ruling on a client that was planned in the round. An old reply that it kept counts as accepted."""
        known = self._rounds.get(client, {})
        return known[round] if round in known else Ruling("accepted", "")

    def outcome(self, round: int, client: int) -> str | None:
        """Return the outcome of a client's reply, if a reply has come and is remembered, or None."""
        ruling = self.of(round, client) if self.is_planned(round, client) else None
        return None if ruling is None else ruling.outcome

    @property
    def clients(self) -> AbstractSet[int]:
        """The clients that have kept something that they trained."""
        return self._trained.keys()

    def has_trained(self, round: int, client: int) -> bool:
        """Return whether the client kept what it had trained in this round, however long ago."""
        return bool(self._trained.get(client, 0) >> round & 1)

    def last_trained(self, client: int, before: int | None = None) -> int:
        """Return the last round in which the client kept what it had trained, 0 before the first.

        before  round from which on nothing counts. None: every round counts
        """
        rounds = self._trained.get(client, 0)
        return max((rounds if before is None else rounds & (1 << before) - 1).bit_length() - 1, 0)

    def lost_before(self, round: int, losses: Iterable[tuple[int, int]]) -> frozenset[int]:
        """Return the clients that came into a round after a loss. `losses` has (client, after) as Progress has it."""
        return frozenset(client for client, after in losses if after == self.last_trained(client, round))

    def judge(self, round: int, client: int, outcome: str) -> None:
        """Note that the client's reply has been judged, while the ruling on it is not durable yet."""
        self._judging[round, client] = outcome

    def is_judging(self, round: int, client: int) -> bool:
        """Return whether the client's reply has been judged and the ruling on it is not durable yet."""
        return (round, client) in self._judging

    def keeps_trained(self, round: int, client: int) -> bool:
        """Return whether the client keeps what it trained in this round, by a ruling that may not be durable yet."""
        return self.has_trained(round, client) or self._judging.get((round, client)) in TRAINED

    def rule(self, round: int, client: int, ruling: Ruling) -> None:
        """Note that the ruling on the client's reply is durable."""
        self._judging.pop((round, client), None)
        rounds = self._rounds.setdefault(client, {})
        rounds[round] = ruling
        if ruling.outcome in TRAINED:
            self._trained[client] = self._trained.get(client, 0) | 1 << round
        ruled = sorted(r for r, each in rounds.items() if each is not None)
        first = ruled[-KEPT] if len(ruled) > KEPT else ruled[0]
        for r in [r for r in rounds if r < first or (r < ruled[-1] and rounds[r] is None)]:
            del rounds[r]

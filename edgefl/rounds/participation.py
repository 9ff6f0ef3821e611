"""Who took part in which round of a run that had deadlines: what its result depends on besides the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgefl.algorithms.pace import Pace
from edgefl.errors import RunError
from edgefl.rounds.paces import Paces

TRAINED = ("accepted", "late")  # outcomes after which a client keeps its newly trained model


@dataclass(frozen=True)
class Participation:
    """As a served run has logged it.

    limits      capacities that clients declared
    outcomes    by (round, client), for every planned client: "accepted" (it trained, and was folded), "late" (it
                trained, and was not), "refused" or None, no reply (as if it had not trained)
    candidates  by round, whom its clients were chosen among, where that was not everybody
    losses      by (client, after): the client lost what it kept after that round, and went on from what it kept after
                this one, 0 for nothing
    paces       by (client, round): how fast the client's device said that it is, as plans follow it from that round on
    """

    limits: Mapping[int, float]
    outcomes: Mapping[tuple[int, int], str | None]
    candidates: Mapping[int, frozenset[int]] = field(default_factory=dict)
    losses: Mapping[tuple[int, int], int] = field(default_factory=dict)
    paces: Mapping[tuple[int, int], Pace] = field(default_factory=dict)

    def check(self, round: int, clients: list[int]) -> None:
        """Raises RunError unless the round was planned with exactly these clients."""
        logged = sorted(client for r, client in self.outcomes if r == round)
        if logged != sorted(clients):
            raise RunError(f"round {round} is planned with clients {sorted(clients)}; the run had {logged}")

    def paces_at(self, round: int) -> Mapping[int, Pace]:
        """What held in a round."""
        return Paces(self.paces).at(round)

    def restart(self, client: int, round: int) -> int | None:
        """The round from whose state a client that lost what it kept goes on into this round, 0 for nothing; None if it
        has lost nothing since it last trained.
        """
        if not any(lost == client for lost, _ in self.losses):
            return None
        rounds = [
            r for (r, who), outcome in self.outcomes.items() if who == client and outcome in TRAINED and r < round
        ]
        return self.losses.get((client, max(rounds, default=0)))

    def lost(self, round: int) -> frozenset[int]:
        """The clients that come into this round after a loss."""
        return frozenset(client for client, _ in self.losses if self.restart(client, round) is not None)

    def is_needed_later(self, client: int, round: int) -> bool:
        """Whether a client went back to what it kept after this round."""
        return any(lost == client and kept == round for (lost, _), kept in self.losses.items())

"""Who took part in which round of a run that had deadlines: what its result depends on besides the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgefl.errors import RunError

TRAINED = ("accepted", "late")  # outcomes after which a client keeps its newly trained model


@dataclass(frozen=True)
class Participation:
    """As a served run has logged it.

    limits      capacities that clients declared
    outcomes    by (round, client), for every planned client: "accepted" (it trained, and was folded), "late" (it
                trained, and was not), "refused" or None, no reply (as if it had not trained)
    candidates  by round, whom its clients were chosen among, where that was not everybody
    """

    limits: Mapping[int, float]
    outcomes: Mapping[tuple[int, int], str | None]
    candidates: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def check(self, round: int, clients: list[int]) -> None:
        """Raises RunError unless the round was planned with exactly these clients."""
        logged = sorted(client for r, client in self.outcomes if r == round)
        if logged != sorted(clients):
            raise RunError(f"round {round} is planned with clients {sorted(clients)}; the run had {logged}")

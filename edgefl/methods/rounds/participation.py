"""The participants of each round: all selected clients, or in a run with deadlines the clients that took part, on which
the result depends besides the experiment. A model of devices that decides participation is
device_models/simulated_clock.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgefl.errors import RunError
from edgefl.methods.rounds.round_metrics import ClientRound
from edgefl.methods.rounds.throughput_log import ThroughputHistory
from edgefl.methods.throughput import Throughput

TRAINED = ("accepted", "late")  # outcomes after which a client keeps its newly trained model


class ParticipationModel(Protocol):
    """The questions of a simulation about participation.

    limits   capacities that clients declared
    is_over  whether the rounds are those of a run that was served, in which any number may have accepted nobody
    """

    @property
    def limits(self) -> Mapping[int, float]: ...

    @property
    def is_over(self) -> bool: ...

    def offers(self, round: int) -> Iterator[frozenset[int] | None]:
        """Whom the round's clients may be chosen among, None for everybody: asked for again while nobody is chosen."""

    def lost(self, round: int) -> frozenset[int]:
        """The clients that come into this round after a loss."""

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        """How fast clients' devices are in a round, as far as that is known."""

    def check(self, round: int, clients: list[int]) -> None:
        """Raises RunError unless the round may have been planned with exactly these clients."""

    def expected(self, round: int, client: int) -> str | None:
        """The expectation about a planned client before it trains: one of TRAINED, or that it does not train."""

    def judged(self, record: ClientRound) -> ClientRound:
        """After it has trained, or has not. One that is late now trained, and is not aggregated."""

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        """The line of metrics of a round, with what it says of who took part; the next round follows."""

    def goes_on(self, log_record: Mapping[str, Any]) -> None:
        """An earlier process has closed the round with this line."""

    def restart(self, client: int, round: int) -> int | None:
        """The round from whose state a client that lost what it kept goes on into this round, 0 for nothing; None if it
        has lost nothing since it last trained.
        """

    def is_needed_later(self, client: int, round: int) -> bool:
        """Whether a client will go back to what it kept after this round."""


class FullParticipation:
    """Everybody who is selected takes part."""

    @property
    def limits(self) -> Mapping[int, float]:
        return {}

    @property
    def is_over(self) -> bool:
        return False

    def offers(self, round: int) -> Iterator[frozenset[int] | None]:
        yield None

    def lost(self, round: int) -> frozenset[int]:
        return frozenset()

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        return {}

    def check(self, round: int, clients: list[int]) -> None: ...

    def expected(self, round: int, client: int) -> str | None:
        return "accepted"

    def judged(self, record: ClientRound) -> ClientRound:
        return record

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        return log_record

    def goes_on(self, log_record: Mapping[str, Any]) -> None: ...

    def restart(self, client: int, round: int) -> int | None:
        return None

    def is_needed_later(self, client: int, round: int) -> bool:
        return False


@dataclass(frozen=True)
class RecordedParticipation:
    """As a served run has logged it.

    limits      capacities that clients declared
    outcomes    by (round, client), for every planned client: "accepted" (it trained, and was aggregated), "late" (it
                trained, and was not), "refused" or None, no reply (as if it had not trained)
    candidates  by round, whom its clients were chosen among, where that was not everybody
    losses      by (client, after): the client lost what it kept after that round, and went on from what it kept after
                this one, 0 for nothing
    throughputs by (client, round): the throughput that the client's device reported, which plans follow from that
                round on
    """

    limits: Mapping[int, float]
    outcomes: Mapping[tuple[int, int], str | None]
    candidates: Mapping[int, frozenset[int]] = field(default_factory=dict)
    losses: Mapping[tuple[int, int], int] = field(default_factory=dict)
    throughputs: Mapping[tuple[int, int], Throughput] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return True

    def offers(self, round: int) -> Iterator[frozenset[int] | None]:
        yield self.candidates.get(round)

    def expected(self, round: int, client: int) -> str | None:
        return self.outcomes[round, client]

    def judged(self, record: ClientRound) -> ClientRound:
        return record

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        return log_record

    def goes_on(self, log_record: Mapping[str, Any]) -> None: ...

    def check(self, round: int, clients: list[int]) -> None:
        """Raises RunError unless the round was planned with exactly these clients."""
        logged = sorted(client for r, client in self.outcomes if r == round)
        if logged != sorted(clients):
            raise RunError(f"round {round} is planned with clients {sorted(clients)}; the run had {logged}")

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        """What held in a round."""
        return ThroughputHistory(self.throughputs).at(round)

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

"""The participants of each round: all selected clients, or in a run with deadlines the clients that took part.

With deadlines the result depends on the participants in addition to the experiment. device_models/simulated_clock.py
has a model of devices that decides participation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from edgefl.errors import RunError
from edgefl.methods.rounds.round_metrics import ClientRound
from edgefl.methods.rounds.throughput_log import ThroughputHistory
from edgefl.methods.throughput import Throughput

TRAINED = ("accepted", "late", "masked", "not-opened")  # outcomes after which a client keeps its newly trained model
AS_PLAYED = {"masked": "accepted", "not-opened": "late"}  # outcome with secure aggregation -> outcome in a replay


class ParticipationModel(Protocol):
    """The questions of a simulation about participation.

    limits   capacities that clients declared
    is_over  whether the rounds are those of a served run, in which any number of rounds may have accepted no client
    """

    @property
    def limits(self) -> Mapping[int, float]: ...

    @property
    def is_over(self) -> bool: ...

    def offers(self, round: int, busy: frozenset[int] = frozenset()) -> Iterator[frozenset[int] | None]:
        """Yield the clients from which the round's clients may be chosen, or None for all clients.

        The simulation asks for the next offer while no client is chosen.

        busy  clients that have a task of an earlier round, in an asynchronous run
        """

    def places(self, round: int, free: int | None) -> int | None:
        """Return the number of clients that an asynchronous round plans. `free` is the number of places that no task
        takes, or None if rounds wait for their clients.
        """

    def due(self, round: int, in_flight: Mapping[int, ClientRound]) -> Collection[int]:
        """Return the clients whose replies an asynchronous round takes in. `in_flight` has the clients that have a
        task, with the records of their training.
        """

    def lost(self, round: int) -> frozenset[int]:
        """Return the clients that come into this round after a loss of state."""

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        """Return the throughputs of clients' devices in a round, as far as they are known."""

    def check(self, round: int, clients: list[int]) -> None:
        """Raise RunError unless the round may have been planned with exactly these clients."""

    def expected(self, round: int, client: int) -> str | None:
        """Return the expected outcome of a planned client before it trains: one of TRAINED, or an outcome without
        training.
        """

    def judged(self, record: ClientRound) -> ClientRound:
        """Return the record of a client after its turn. A client that is late now has trained, but is not
        aggregated.
        """

    def adapted(self, client: int, flops: float, steps: int) -> Mapping[str, Any]:
        """Return the device of a client, and the seconds and joules of work that it did outside rounds, or {} if
        devices are not modelled.
        """

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        """Return the log record of a round's metrics with the participation added, and go on to the next round."""

    def goes_on(self, log_record: Mapping[str, Any]) -> None:
        """Go on after a round that an earlier process has closed with this log record."""

    def restart(self, client: int, round: int) -> int | None:
        """Return the round from whose state a client that lost its state goes on in this round.

        The result is 0 for no state, and None if the client has lost nothing since it last trained.
        """

    def is_needed_later(self, client: int, round: int) -> bool:
        """Return whether a client will go back to the state that it kept after this round."""


class FullParticipation:
    """Participation of every client that is selected."""

    @property
    def limits(self) -> Mapping[int, float]:
        return {}

    @property
    def is_over(self) -> bool:
        return False

    def offers(self, round: int, busy: frozenset[int] = frozenset()) -> Iterator[frozenset[int] | None]:
        yield None

    def places(self, round: int, free: int | None) -> int | None:
        return free

    def due(self, round: int, in_flight: Mapping[int, ClientRound]) -> Collection[int]:
        return in_flight

    def lost(self, round: int) -> frozenset[int]:
        return frozenset()

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        return {}

    def check(self, round: int, clients: list[int]) -> None: ...

    def expected(self, round: int, client: int) -> str | None:
        return "accepted"

    def judged(self, record: ClientRound) -> ClientRound:
        return record

    def adapted(self, client: int, flops: float, steps: int) -> Mapping[str, Any]:
        return {}

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        return log_record

    def goes_on(self, log_record: Mapping[str, Any]) -> None: ...

    def restart(self, client: int, round: int) -> int | None:
        return None

    def is_needed_later(self, client: int, round: int) -> bool:
        return False


@dataclass(frozen=True)
class RecordedParticipation:
    """Participation as a served run has logged it.

    limits       capacities that clients declared
    outcomes     outcome of every planned client, by (round, client): "accepted" (it trained and was aggregated), "late"
                 (it trained and was not aggregated), "refused" or None, no reply (as if it had not trained)
    candidates   clients from which a round's clients were chosen, by round, where these were not all clients
    losses       by (client, after): the client lost its state after round `after`, and went on from the state of the
                 round that is the value. 0 stands for no state
    closes       by (round, client): the round that took the client's accepted reply in, where it was a later round
    throughputs  throughput that a client's device reported, by (client, round). Plans follow from it from that round on
    """

    limits: Mapping[int, float]
    outcomes: Mapping[tuple[int, int], str | None]
    candidates: Mapping[int, frozenset[int]] = field(default_factory=dict)
    losses: Mapping[tuple[int, int], int] = field(default_factory=dict)
    throughputs: Mapping[tuple[int, int], Throughput] = field(default_factory=dict)
    closes: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return True

    def offers(self, round: int, busy: frozenset[int] = frozenset()) -> Iterator[frozenset[int] | None]:
        yield self.candidates.get(round)

    def places(self, round: int, free: int | None) -> int | None:
        return None if free is None else len(self._planned(round))

    def due(self, round: int, in_flight: Mapping[int, ClientRound]) -> Collection[int]:
        ended = {client for (planned, client), taken in self.closes.items() if taken == round and client in in_flight}
        own = [client for client in self._planned(round) if (round, client) not in self.closes]
        return ended | {client for client in own if self.outcomes[round, client] == "accepted"}

    def expected(self, round: int, client: int) -> str | None:
        outcome = self.outcomes[round, client]
        return outcome if outcome is None else AS_PLAYED.get(outcome, outcome)

    def judged(self, record: ClientRound) -> ClientRound:
        return record

    def adapted(self, client: int, flops: float, steps: int) -> Mapping[str, Any]:
        return {}

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        return log_record

    def goes_on(self, log_record: Mapping[str, Any]) -> None: ...

    def check(self, round: int, clients: list[int]) -> None:
        """Raise RunError unless the round was planned with exactly these clients."""
        logged = self._planned(round)
        if logged != sorted(clients):
            raise RunError(f"round {round} is planned with clients {sorted(clients)}; expected {logged}, as in the run")

    def _planned(self, round: int) -> list[int]:
        return sorted(client for r, client in self.outcomes if r == round)

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        """Return the throughputs that held in a round."""
        return ThroughputHistory(self.throughputs).at(round)

    def restart(self, client: int, round: int) -> int | None:
        """Return the round from whose state a client that lost its state goes on in this round.

        The result is 0 for no state, and None if the client has lost nothing since it last trained.
        """
        if not any(lost == client for lost, _ in self.losses):
            return None
        rounds = [
            r for (r, who), outcome in self.outcomes.items() if who == client and outcome in TRAINED and r < round
        ]
        return self.losses.get((client, max(rounds, default=0)))

    def lost(self, round: int) -> frozenset[int]:
        """Return the clients that come into this round after a loss of state."""
        return frozenset(client for client, _ in self.losses if self.restart(client, round) is not None)

    def is_needed_later(self, client: int, round: int) -> bool:
        """Return whether a client went back to the state that it kept after this round."""
        return any(lost == client and kept == round for (lost, _), kept in self.losses.items())

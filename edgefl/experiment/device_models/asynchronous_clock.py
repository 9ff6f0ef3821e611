"""The clock of a simulation with asynchronous rounds, whose clients are modelled devices.

A round ends when the buffer is full, which is the arrival of its last reply. Devices that have a task go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgefl.experiment.device_models.device_assignment import Fleet
from edgefl.experiment.device_models.simulated_clock import VirtualClock
from edgefl.methods.rounds.round_metrics import ClientRound


class AsynchronousClock(VirtualClock):
    """The time of an asynchronous run in seconds, from the midnight at which the run begins.

    buffer  number of accepted replies that end a round
    """

    def __init__(self, fleet: Fleet, clients: int, seed: int, buffer: int, examples: Sequence[int] = ()) -> None:
        super().__init__(fleet, clients, seed, 0.0, examples)
        self._buffer = buffer
        self._arrivals: dict[int, float] = {}  # client -> time of its reply in seconds

    def offers(self, round: int, busy: frozenset[int] = frozenset()) -> Iterator[frozenset[int] | None]:
        """Yield the clients without a task that are available at the end of the last round.

        If no client has a task, nothing else can happen. So later moments follow, as in a run whose rounds wait.
        """
        for there in super().offers(round):
            everybody = frozenset(range(len(self._devices))) if there is None else there
            yield None if there is None and not busy else everybody - busy
            if busy:
                break

    def judged(self, record: ClientRound) -> ClientRound:
        found = super().judged(record)
        if record.status != "absent":
            until = self._began + found.virtual["virtual_seconds"]
            self._busy[record.client] = self._arrivals[record.client] = until
        return found

    def due(self, round: int, in_flight: Mapping[int, ClientRound]) -> list[int]:
        """Return the clients whose replies arrive first, until the buffer is full. The round ends with the last of
        them.
        """
        found: list[int] = []
        accepted, self._closes = 0, self._began
        for client in sorted(in_flight.keys() & self._arrivals.keys(), key=lambda each: (self._arrivals[each], each)):
            if accepted == self._buffer:
                break
            accepted += in_flight[client].is_taken
            found.append(client)
            self._closes = max(self._closes, self._arrivals.pop(client))
        return found

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        """Add the beginning and the end of the round, and the joules of the clients whose tasks ended in it."""
        joules = sum(each.get("virtual_joules", 0.0) for each in log_record["clients"])
        self._ended = self._closes
        self._busy = {client: until for client, until in self._busy.items() if until > self._ended}
        return {**log_record, "virtual": {"began": self._began, "ended": self._ended, "joules": joules}}

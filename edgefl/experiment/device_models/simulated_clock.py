"""The clock of a simulation whose clients are modelled devices: who takes part in a round, and when the round ends. It
counts seconds and joules over counted work, and reads no time of this machine.

Its results depend on the settings, the seed and what clients executed and sent, so they do not depend on workers. All
that it knows of earlier rounds is in their lines of metrics, which a resumed run reads again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgefl import rng
from edgefl.experiment.device_models.device_assignment import Fleet
from edgefl.methods.rounds.client_round import EXECUTED, SEARCH
from edgefl.methods.rounds.participation import FullParticipation
from edgefl.methods.rounds.round_metrics import ClientRound
from edgefl.methods.throughput import Throughput

FLOPS_PER_MAC = 2


class VirtualClock(FullParticipation):
    """The time of a run in seconds, from the midnight at which the run begins.

    deadline_s  seconds after which a round closes and later replies are late. 0: rounds wait for everybody
    examples    training samples of each client. If given, devices report their speed as served devices measure it
    """

    def __init__(self, fleet: Fleet, clients: int, seed: int, deadline_s: float, examples: Sequence[int] = ()) -> None:
        self._devices = fleet.assigned(clients)
        self._seed, self._deadline_s = seed, deadline_s
        self._began = self._ended = 0.0
        self._throughputs = {
            client: self._devices[client].profile.throughput(count) for client, count in enumerate(examples)
        }
        self._busy: dict[int, float] = {}  # client -> time in seconds until which it works

    def offers(self, round: int, busy: frozenset[int] = frozenset()) -> Iterator[frozenset[int] | None]:
        """Yield the clients that a round may choose from: first at the end of the last round, then at each moment at
        which other clients are available, until every client has been available once. The round begins with the last
        offer that is taken.
        """
        everybody = range(len(self._devices))
        ended = self._ended
        for self._began in sorted({self._free(client, ended) for client in everybody}):
            there = frozenset(client for client in everybody if self._is_there(client))
            yield None if len(there) == len(everybody) else there

    def throughputs_at(self, round: int) -> Mapping[int, Throughput]:
        return self._throughputs

    def expected(self, round: int, client: int) -> str | None:
        """Return "accepted", or None if the client is gone or was planned although it is not available."""
        probability = self._devices[client].profile.drop_out
        is_gone = probability > 0 and rng.stream(self._seed, rng.ABSENT, client, round).uniform(1)[0] < probability
        return "accepted" if self._is_there(client) and not is_gone else None

    def judged(self, record: ClientRound) -> ClientRound:
        """Add the device of a reply, and the seconds and joules of the client's round. A reply that takes longer than
        the deadline is late.
        """
        device = self._devices[record.client]
        if record.status == "absent":
            return replace(record, virtual={"device": device.name})
        macs = (record.metrics.get(EXECUTED, 0.0) + record.metrics.get(SEARCH, 0.0)) / FLOPS_PER_MAC
        spent = macs, record.down.total, record.up.total, record.steps
        seconds = device.profile.seconds(*spent)
        is_late = 0 < self._deadline_s < seconds and record.reason is None
        found = {"device": device.name, "virtual_seconds": seconds, "virtual_joules": device.profile.joules(*spent)}
        return replace(record, status="late" if is_late else record.status, virtual=found)

    def adapted(self, client: int, flops: float, steps: int) -> dict[str, Any]:
        """Return the device of a client, and the seconds and joules of an adaptation before a test. The adaptation
        sends nothing, and the clock does not advance.
        """
        device = self._devices[client]
        spent = flops / FLOPS_PER_MAC, 0, 0, steps
        seconds, joules = device.profile.seconds(*spent), device.profile.joules(*spent)
        return {"device": device.name, "virtual_seconds": seconds, "virtual_joules": joules}

    def closed(self, log_record: dict[str, Any]) -> dict[str, Any]:
        """Add the beginning and the end of the round, and its joules. The round lasts until the deadline whenever a
        planned client has not answered by then. Without a deadline, the round does not wait for clients that are gone.
        """
        seconds = [each.get("virtual_seconds") for each in log_record["clients"]]
        joules = sum(each.get("virtual_joules", 0.0) for each in log_record["clients"])
        answered = [each for each in seconds if each is not None]
        lasts = max(answered, default=0.0)
        if self._deadline_s and (lasts > self._deadline_s or len(answered) < len(seconds)):
            lasts = self._deadline_s
        found = {**log_record, "virtual": {"began": self._began, "ended": self._began + lasts, "joules": joules}}
        self.goes_on(found)
        return found

    def goes_on(self, log_record: Mapping[str, Any]) -> None:
        """Set the clock to the end of a round with this line of metrics, of this process or of an earlier process."""
        began, self._ended = log_record["virtual"]["began"], log_record["virtual"]["ended"]
        for each in log_record["clients"]:
            if "virtual_seconds" in each:
                self._busy[each["client"]] = began + each["virtual_seconds"]
        self._busy = {client: until for client, until in self._busy.items() if until > self._ended}

    def _is_there(self, client: int) -> bool:
        return self._free(client, self._began) == self._began

    def _free(self, client: int, at: float) -> float:
        """Return the first moment from `at` on, in seconds, at which the client has no work and is available."""
        return self._devices[client].profile.opens(max(at, self._busy.get(client, at)))

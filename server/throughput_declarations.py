"""The throughputs that devices declare in a run that plans by them: the round from which a declaration holds, and the
clients that are not asked before it.

A device declares its throughput once it has the model, before it trains. So it is not asked to train until the
declaration is durable. A later declaration holds from the next round if the device has been asked in the open round,
because a plan that was sent does not change. If a device declares several times before that, only the first declaration
counts. So a client adds at most one row a round. The module has no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgefl.methods.rounds.throughput_log import ThroughputHistory
from edgefl.methods.throughput import Throughput
from edgefl.protocol.wire.messages import ThroughputReport
from edgefl.server.client_links import ClientConnection
from edgefl.server.events import ThroughputRecorded


class ThroughputDeclarations:
    """The declarations of one run. Unless they `are_wanted` by its method, nothing is recorded and nobody waits."""

    def __init__(self, are_wanted: bool, known: Mapping[tuple[int, int], Throughput]) -> None:
        self._are_wanted, self.throughputs = are_wanted, ThroughputHistory(known)
        self._saving: dict[int, ThroughputRecorded] = {}

    def holds(self, link: ClientConnection) -> bool:
        """Return whether the client must not be asked to train yet."""
        if not self._are_wanted or not link.declares:
            return False
        return link.client in self._saving or (not link.has_declared and self.throughputs.last(link.client) is None)

    def hear(
        self, link: ClientConnection, message: ThroughputReport, since: int, examples: int
    ) -> ThroughputRecorded | None:
        """Take a device's report, and return the record that has to be made durable, or None.

        since     first round in which the report can hold
        examples  number of training samples that the client declared
        """
        link.has_declared = True
        if not self._are_wanted or message.throughput is None:
            return None
        said, last = message.throughput, self.throughputs.last(link.client)
        throughput = Throughput(said.still_s, said.mac_s, said.step_s, said.round_s, said.memory, examples)
        if last is not None and (last[1] == throughput or last[0] >= since):
            return None
        record = ThroughputRecorded(link.client, since, throughput)
        self.throughputs.add(link.client, since, throughput)
        self._saving[link.client] = record
        return record

    def saved(self, record: ThroughputRecorded) -> None:
        """Go on after the declaration is durable."""
        if self._saving.get(record.client) == record:
            del self._saving[record.client]

"""The throughputs that devices declare in a run that plans by them: the round from which a declaration holds, and the
clients that are not asked before it.

A device says it once it has the model, before it trains anything; so it is not asked to train until what it said is
durable. What it says later holds from the next round, if it has been asked in this one: a plan that was sent stays. Of
what it says again before then only the first counts, so that a client adds at most one row a round. No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgefl.methods.rounds.throughput_log import ThroughputHistory
from edgefl.methods.throughput import Throughput
from edgefl.protocol.wire.messages import ThroughputReport
from edgefl.server.client_links import ClientConnection
from edgefl.server.events import ThroughputRecorded


class ThroughputDeclarations:
    """The declarations of one run. `are_wanted`: whether its method plans by them; otherwise nothing is recorded and
    nobody waits.
    """

    def __init__(self, are_wanted: bool, known: Mapping[tuple[int, int], Throughput]) -> None:
        self._are_wanted, self.throughputs = are_wanted, ThroughputHistory(known)
        self._saving: dict[int, ThroughputRecorded] = {}

    def holds(self, link: ClientConnection) -> bool:
        """Whether the client must not be asked to train yet."""
        if not self._are_wanted or not link.declares:
            return False
        return link.client in self._saving or (not link.has_declared and self.throughputs.last(link.client) is None)

    def hear(
        self, link: ClientConnection, message: ThroughputReport, since: int, examples: int
    ) -> ThroughputRecorded | None:
        """What has to be made durable of what a device says, if anything. `since`: the first round that it can hold in;
        examples: that the client declared for training.
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

"""The clients that take no part: their devices have refused the server, have left, or were refused for good.

Such a client is absent from the open round and from later rounds and evaluations, until its device comes back. A client
that the operator has removed is absent until the operator takes it back. Each change is made durable (DeviceRefusal,
ClientRemoved). round_sequence.py decides when a round closes without such clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from edgefl.protocol.wire.messages import LONGEST_TEXT
from edgefl.server.action_queue import ActionQueue
from edgefl.server.events import DeviceRefusal, Say
from edgefl.server.member_records import ClientRemoved
from edgefl.system.log_lines import Alert, LogLine

LEFT = "its device has left the run"


class RefusalRegister:
    """The register of absent clients.

    reasons  why the client's device takes no part, by client. The record may not be durable yet
    removed  why the operator has removed the client, by client
    """

    def __init__(self, reasons: Mapping[int, str], removed: Mapping[int, str], queue: ActionQueue) -> None:
        self.reasons, self.removed, self._queue = dict(reasons), dict(removed), queue

    @property
    def clients(self) -> AbstractSet[int]:
        """The clients that are absent."""
        return self.reasons.keys() | self.removed.keys() if self.removed else self.reasons.keys()

    @property
    def is_final(self) -> bool:
        """True if each absent client's device has refused or was refused. A device that has left may come back, and the
        operator may take back a client that the operator has removed.
        """
        return bool(self.reasons) and not self.removed and LEFT not in self.reasons.values()

    def leave(self, client: int) -> DeviceRefusal:
        """Note that the client's device leaves, and return the record that has to be durable before the device hears
        so.
        """
        record = DeviceRefusal(client, LEFT)
        self._add(record)
        return record

    def ban(self, client: int, reason: str) -> None:
        """Note that the operator has removed the client."""
        self.removed[client] = reason
        self._queue.save(ClientRemoved(client, reason))

    def readmit(self, client: int) -> None:
        """Note that the operator takes the client's device back."""
        if self.removed.pop(client, None) is not None:
            self._queue.save(ClientRemoved(client, ""))

    def add(self, client: int, reason: str) -> None:
        """Note that the client's device takes no part for this reason."""
        kept = reason[:LONGEST_TEXT] or "no reason given"
        if self.reasons.get(client) == kept:
            return
        self._add(DeviceRefusal(client, kept))

    def _add(self, record: DeviceRefusal) -> None:
        client = record.client
        self.reasons[client] = record.reason
        line = f"client {client} does not take part until its device comes back: {record.reason}"
        self._queue.add(Say(Alert(line, "refused", client)))
        self._queue.save(record)

    def remove(self, client: int) -> None:
        """Note that the client's device has come back."""
        if self.reasons.pop(client, None) is not None:
            self._queue.add(Say(LogLine(f"client {client} is back", "back", client)))
            self._queue.save(DeviceRefusal(client, ""))

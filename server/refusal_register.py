"""The clients whose devices take no part, because they have refused the server or were refused for good.

Such a client is absent from the open round and from later rounds and evaluations, until its device comes back. Each
change is made durable (DeviceRefusal). round_sequence.py decides when a round closes without such clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from edgefl.protocol.wire.messages import LONGEST_TEXT
from edgefl.server.action_queue import ActionQueue
from edgefl.server.events import DeviceRefusal, Say
from edgefl.system.log_lines import Alert, LogLine


class RefusalRegister:
    """The register of absent clients. `reasons` has the reason by client, whose record may not be durable yet."""

    def __init__(self, reasons: Mapping[int, str], queue: ActionQueue) -> None:
        self.reasons, self._queue = dict(reasons), queue

    @property
    def clients(self) -> AbstractSet[int]:
        """The clients that are absent."""
        return self.reasons.keys()

    def add(self, client: int, reason: str) -> None:
        """Note that the client's device takes no part for this reason."""
        kept = reason[:LONGEST_TEXT] or "no reason given"
        if self.reasons.get(client) == kept:
            return
        self.reasons[client] = kept
        line = f"client {client} does not take part until its device comes back: {kept}"
        self._queue.add(Say(Alert(line, "refused", client)))
        self._queue.save(DeviceRefusal(client, kept))

    def remove(self, client: int) -> None:
        """Note that the client's device has come back."""
        if self.reasons.pop(client, None) is not None:
            self._queue.add(Say(LogLine(f"client {client} is back", "back", client)))
            self._queue.save(DeviceRefusal(client, ""))

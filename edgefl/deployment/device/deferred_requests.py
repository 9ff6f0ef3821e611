"""The requests of a server that wait on a device until its last reply has a verdict."""

from __future__ import annotations

from edgefl.protocol.wire.connection import payload_bytes
from edgefl.protocol.wire.messages import Evaluate, Train

MOST = 16  # requests that wait


class DeferredRequests:
    """The waiting requests, oldest first. If too many wait, the oldest are dropped, as the server has moved on."""

    def __init__(self) -> None:
        self._waiting: list[Train | Evaluate] = []

    def add(self, message: Train | Evaluate, cap: int) -> list[int]:
        """Let a request wait. Return the rounds of the requests that were dropped for it.

        cap  largest number of bytes of all payloads
        """
        dropped, most = [], cap - payload_bytes(message)
        while self._waiting and (len(self._waiting) >= MOST or sum(map(payload_bytes, self._waiting)) > most):
            dropped.append(self._waiting.pop(0).round)
        self._waiting.append(message)
        return dropped

    def taken(self) -> list[Train | Evaluate]:
        """Return the requests in order. Afterwards no request waits."""
        waiting, self._waiting = self._waiting, []
        return waiting

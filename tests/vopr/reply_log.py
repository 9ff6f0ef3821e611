"""The replies that closed rounds have taken in: each accepted reply is part of one round.

A round that is closed counts once that is durable: when the server closes the next round, or has read the round again.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgefl.server.events import RoundClosed
from tests.vopr.broken_promise import BrokenPromiseError

TAKEN_IN = ("on", "stopped", "excluded")  # status of a client whose accepted reply was part of a round


class ReplyLog:
    """The log of one simulation."""

    def __init__(self) -> None:
        self._taken: dict[tuple[int, int], int] = {}  # the closed round by a reply's own round and client
        self._closing: RoundClosed | None = None

    def closes(self, record: RoundClosed) -> None:
        """Note that a round closes, which is not durable yet. The rounds before it are durable."""
        self._take()
        self._closing = record

    def resumed(self, round: int) -> None:
        """Note that a server goes on after this round."""
        if self._closing is not None and self._closing.round > round:
            self._closing = None
        self._take()

    def check(self, accepted: Iterable[tuple[int, int]]) -> None:
        """Check that each accepted reply, by its round and client, is part of a closed round."""
        self._take()
        if missing := sorted(set(accepted) - self._taken.keys()):
            round, client = missing[0]
            raise BrokenPromiseError(f"client {client} heard accepted on round {round}; no closed round has its reply")

    def _take(self) -> None:
        if self._closing is None:
            return
        closed, self._closing = self._closing, None
        for each in closed.log_record["clients"]:
            if each["status"] in TAKEN_IN:
                key = closed.round - each.get("staleness", 0), each["client"]
                if key in self._taken:
                    raise BrokenPromiseError(
                        f"the reply of client {key[1]} for round {key[0]} is part of the rounds {self._taken[key]} and"
                        f" {closed.round}"
                    )
                self._taken[key] = closed.round

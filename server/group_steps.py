"""The steps of the open round's groups, in a run with secure aggregation: who is asked, and when the round may close.

secure_round.py has the groups. The module has no I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from edgefl.protocol.wire.messages import GroupReply
from edgefl.server.action_queue import ActionQueue
from edgefl.server.client_links import ClientConnection, Clients
from edgefl.server.events import GroupEvent, ReplyJudged

if TYPE_CHECKING:
    from edgefl.server.secure_round import SecureRound


class GroupSteps:
    """The steps of the groups of one round at a time.

    rule     takes the verdict of a client whose group is over
    promise  takes round and client of a member of a formed group, which will get a verdict with which it keeps what it
             has trained
    """

    def __init__(
        self,
        clients: Clients,
        queue: ActionQueue,
        ask: Callable[[ClientConnection, float], None],
        wake_after: Callable[[float | None, float], None],
        close: Callable[[float], None],
    ) -> None:
        """Make the steps.

        ask         asks the client of a connection what it has to do
        wake_after  sets the time at which `expire` is called, in seconds from now on
        close       closes the round
        """
        self._clients, self._queue, self._ask, self._wake_after, self._close = clients, queue, ask, wake_after, close
        self._round: SecureRound | None = None
        self.rule: Callable[[ReplyJudged], None] = lambda judged: None
        self.promise: Callable[[int, int], None] = lambda round, client: None

    @property
    def is_stepping(self) -> bool:
        """Return whether groups are formed, and their round is not closed yet."""
        return self._round is not None

    def begin(self, round: SecureRound, now: float) -> None:
        """Begin the steps of a round: form its groups, or go on with groups that an earlier process has formed."""
        self._round = round
        if round.is_formed:
            self._ask_all(round.go_on(now), now)
        else:
            self._wake_after(None, now)
            self._save(round.form())
        for client in round.members:
            self.promise(round.number, client)
        self._go_on(now)

    def take(self, client: int, message: GroupReply, now: float) -> None:
        """Take a client's message. Raises RemoteProtocolError if it does not fit."""
        if self._round is not None and self._round.number == message.round:
            event = self._round.take(client, message)
            self._save([] if event is None else [event])
            self._go_on(now)

    def saved(self, event: GroupEvent, now: float) -> None:
        """Go on after an event is durable."""
        if self._round is not None and self._round.number == event.round:
            self._ask_all(self._round.saved(event, now), now)
            self._go_on(now)

    def expire(self, now: float) -> None:
        """Close the steps whose deadline has come."""
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        assert self._round is not None
        self._save(self._round.close_steps(now))
        if self._round.is_over:
            round, self._round = self._round, None
            for judged in round.rulings():
                self.rule(judged)
            self._close(now)
        else:
            deadline = self._round.deadline
            self._wake_after(None if deadline is None else deadline - now, now)

    def _save(self, events: Iterable[GroupEvent]) -> None:
        for event in events:
            self._queue.save(event)

    def _ask_all(self, clients: Iterable[int], now: float) -> None:
        for client in clients:
            link = self._clients.link_of(client)
            if link is not None and link.admitted:
                self._ask(link, now)

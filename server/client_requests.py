"""The requests to a client's device at this time: to train, to evaluate, to come again later, or to hear of the end.

round_sequence.py decides which round or evaluation is open. The module has no I/O and no clock.
"""

from __future__ import annotations

from typing import Protocol

from edgefl.protocol.wire.attendance_messages import ComeAgain
from edgefl.protocol.wire.messages import Finished, Train
from edgefl.server.action_queue import ActionQueue
from edgefl.server.client_links import GOLDEN, ClientConnection, Clients
from edgefl.server.open_round import OpenRound
from edgefl.server.round_deadline import RoundDeadline
from edgefl.server.round_evaluation import OpenEvaluation
from edgefl.server.throughput_declarations import ThroughputDeclarations


class Sequence(Protocol):
    """The part of a RoundSequence that decides what is asked."""

    round: int
    is_recorded: bool
    open: OpenRound | None
    evaluation: OpenEvaluation | None

    @property
    def is_over(self) -> bool: ...

    def left_s(self, now: float) -> float | None: ...


class ClientRequests:
    """The requests to the clients of a run.

    come_again_s  mean time in seconds for which a device that may sleep is sent away. None: devices stay connected
    """

    def __init__(
        self,
        sequence: Sequence,
        clients: Clients,
        declarations: ThroughputDeclarations,
        deadlines: tuple[RoundDeadline, RoundDeadline],
        queue: ActionQueue,
        come_again_s: float | None,
    ) -> None:
        """Make the requests. `deadlines` has the deadlines of rounds and of evaluations, which hear of each request."""
        self._sequence, self._clients, self._declarations, self._queue = sequence, clients, declarations, queue
        self._deadlines, self._evaluation_deadlines = deadlines
        self._come_again_s = come_again_s

    def ask(self, link: ClientConnection, now: float) -> None:
        """Send what this client has to do at this time, if it has anything to do."""
        open, evaluation = self._sequence.open, self._sequence.evaluation
        if open is not None and link.client in open.clients:
            if self._sequence.is_recorded:  # a server that is killed earlier may choose other clients
                self._ask_to_train(link, open, now)
        elif evaluation is not None and link.client not in evaluation.answers:
            self._evaluation_deadlines.ask(evaluation.round, link.client)
            self._queue.send(link, evaluation.request)
        elif self._sequence.is_over:
            self.tell_end(link)
        else:
            self.send_away(link)

    def ask_everybody(self, now: float) -> None:
        """Send every connected client what it has to do at this time."""
        for link in self._clients.admitted():
            self.ask(link, now)

    def tell_end(self, link: ClientConnection) -> None:
        """Tell the client that the run is over, unless it still owes a reply. The verdict on the reply comes first."""
        if not link.pending:
            self._queue.send(link, Finished(f"the run ended after round {self._sequence.round}"))

    def is_free(self, link: ClientConnection) -> bool:
        """Return whether the client is planned in the open round, is not asked yet, and has not sent its reply."""
        open = self._sequence.open
        if open is None or link.client not in open.clients:
            return False
        is_asked = open.round_of(link.client) in (link.asked, link.pending)
        return not is_asked and link.client not in open.answers

    def _ask_to_train(self, link: ClientConnection, open: OpenRound, now: float) -> None:
        number = open.round_of(link.client)
        message = open.message_for(link.client, link.pending == number, self._sequence.left_s(now))
        if number < open.number and link.asked == number:
            return  # its device trains since an earlier round
        if isinstance(message, Train) and not self._declarations.holds(link):
            link.asked = number
            self._deadlines.ask(open.number, link.client)
            self._queue.send(link, message)
        elif message is not None and not isinstance(message, Train):
            self._queue.send(link, message)

    def send_away(self, link: ClientConnection) -> None:
        """Send away a device that may sleep, if it has nothing to do in the open round. The times of all devices are
        spread evenly between half and one and a half times the mean, so that they do not come back together.
        """
        open = self._sequence.open
        if self._come_again_s is None or open is None or not link.sleeps or link.pending or link.client in open.clients:
            return
        seconds = self._come_again_s * (0.5 + (link.client * GOLDEN + open.number * GOLDEN * GOLDEN) % 1)
        self._queue.send(link, ComeAgain(seconds))
        self._clients.disconnect(link.number)

"""The devices of a served run: who joins and leaves, and what follows from the messages of an admitted device.

A verdict is sent once the reply is durable. round_sequence.py decides when rounds begin and end. The module has no I/O,
no clock and no randomness.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.errors import RemoteProtocolError
from edgefl.protocol.wire.attendance_messages import DeviceNotice
from edgefl.protocol.wire.messages import (
    Evaluated,
    Finished,
    GroupReady,
    GroupReply,
    ThroughputReport,
    Trained,
    Verdict,
)
from edgefl.server.action_queue import ActionQueue
from edgefl.server.client_links import ClientConnection, Clients
from edgefl.server.client_tags import ClientTags
from edgefl.server.device_holdings import DeviceStateTracker
from edgefl.server.enrolment import Arrivals
from edgefl.server.events import (
    Admit,
    Close,
    DeviceJoined,
    DeviceMessage,
    DeviceReplaced,
    Enrolment,
    KeyChanged,
    ReplyJudged,
    ThroughputRecorded,
)
from edgefl.server.member_records import TagsRecorded
from edgefl.server.refusal_register import RefusalRegister
from edgefl.server.round_sequence import RoundSequence
from edgefl.server.run_progress import Ruling
from edgefl.server.throughput_declarations import ThroughputDeclarations
from edgefl.server.verdict_log import Rulings

LEFT = "its device has left the run"


class DeviceSessions:
    """The connections of clients' devices to the rounds of a run."""

    def __init__(
        self,
        method: str,
        rounds: RoundSequence,
        holdings: DeviceStateTracker,
        clients: Clients,
        rulings: Rulings,
        declarations: ThroughputDeclarations,
        queue: ActionQueue,
        refusals: RefusalRegister,
        tags: ClientTags,
        too_small: Callable[[int, int], str],
    ) -> None:
        """Make the sessions. `method` is the method's name, for messages to people."""
        self._rounds, self._clients, self._holdings, self._rulings = rounds, clients, holdings, rulings
        self._declarations, self._queue, self._refusals, self._tags = declarations, queue, refusals, tags
        self._leaving: set[int] = set()  # clients whose devices leave, which is not durable yet
        rounds.groups.rule, rounds.groups.promise = self._judged, self._promised
        self._arrivals = Arrivals(
            clients, holdings, method, queue, self._admit, rounds.plan_again, refusals, tags, too_small
        )

    # Connections.

    def join(self, event: DeviceJoined, now: float) -> None:
        """Handle a device that asks to take part: it is turned away, or admitted at once or when that is durable."""
        self._arrivals.join(event, now)

    def leave(self, number: int, now: float) -> None:
        """Note that the connection with this number is gone."""
        link = self._clients.link(number)
        if link is not None and link.admitted:
            self._rounds.planner.hear(link.client, now)
        self._clients.disconnect(number)

    def refused(self, number: int, reason: str) -> None:
        """Note that the device on this connection refuses the server for good."""
        link = self._clients.link(number)
        if link is not None and link.admitted:
            self._refusals.add(link.client, reason)

    def key_changed(self, event: KeyChanged) -> None:
        """Close the client's connection unless its device has proven a key that is valid still.

        A client without a valid key is absent until it comes with another key.
        """
        if not event.valid:
            self._refusals.add(event.client, event.reason)
        link = self._clients.link_of(event.client)
        if link is not None and link.key not in event.valid:
            self.dismiss(event.client, event.reason)

    def dismiss(self, client: int, reason: str) -> None:
        """Close the client's connection for this reason, if it has one."""
        link = self._clients.link_of(client)
        if link is not None:
            self._refuse(link, reason)

    def refusal_saved(self, client: int) -> None:
        """Tell a device that leaves that this is durable."""
        link = self._admitted(client)
        if client in self._leaving and link is not None:
            self._queue.send(link, Finished(f"client {client} has left the run; start its device again to come back"))
            self._clients.disconnect(link.number)
        self._leaving.discard(client)

    def enrolled(self, record: Enrolment, now: float) -> None:
        """Go on after the enrolment is durable."""
        self._clients.end_enrolment(record.client, record.capacity, record.examples)
        if record.capacity < 1:
            self._rounds.plan_again(record.client)
        self._arrivals.enrolled(record, now)
        if self._rounds.phase == "waiting":
            self._rounds.go_on(now)

    def replaced(self, record: DeviceReplaced, now: float) -> None:
        """Go on after it is durable that another process of a client's device has begun."""
        self._arrivals.begun(record, now)

    def _admit(self, link: ClientConnection, now: float) -> None:
        link.admitted = True
        self._refusals.remove(link.client)
        self._rounds.planner.hear(link.client, now)
        self._queue.add(Admit(link.number, link.client))
        if self._rounds.phase == "waiting":
            self._rounds.go_on(now)  # the next round asks this client, too
        else:
            self._rounds.requests.ask(link, now)

    def _admitted(self, client: int) -> ClientConnection | None:
        """Return the client's connection if messages may be sent to it."""
        link = self._clients.link_of(client)
        return link if link is not None and link.admitted else None

    def _refuse(self, link: ClientConnection, reason: str) -> None:
        """Close the connection for this reason."""
        self._queue.add(Close(link.number, reason))
        self._clients.disconnect(link.number)

    # Messages.

    def receive(self, number: int, message: DeviceMessage, now: float) -> None:
        """Handle a message that has come over the connection with this number."""
        link = self._clients.link(number)
        if link is None or not link.admitted:
            return  # the device repeats over its new connection what an old one still sends
        if isinstance(message, Trained | GroupReady):
            self._take_reply(link, message, now)
        elif isinstance(message, ThroughputReport):
            self._take_throughput(link, message, now)
        elif isinstance(message, GroupReply):
            self._take_step(link, message, now)
        elif isinstance(message, DeviceNotice):
            self._take_notice(link, message, now)
        else:
            self._take_scores(link, message, now)

    def _take_reply(self, link: ClientConnection, message: Trained | GroupReady, now: float) -> None:
        key = message.round, link.client
        if not self._rulings.is_planned(*key):
            self._refuse(
                link,
                f"reply of client {link.client} for round {message.round}; expected a client that this round planned",
            )
        elif (ruling := self._rulings.of(*key)) is not None:
            self._rule(link, message.round, ruling)
        elif not self._rulings.is_judging(*key):
            judged = self._rounds.judge(link.client, message, now)
            if judged is not None:
                self._judged(judged)
            self._rounds.close_if_complete(message.round, now)
            if judged is None:
                self._rounds.requests.ask(link, now)

    def _judged(self, judged: ReplyJudged) -> None:
        """Make the verdict on a reply durable."""
        self._rulings.judge(judged.round, judged.client, judged.outcome)
        self._holdings.judged(judged.client, judged.round, judged.outcome)
        self._queue.save(judged)

    def _promised(self, round: int, client: int) -> None:
        """Note that the client's reply will be in a sum, or be left out as a late reply is."""
        self._rulings.judge(round, client, "not-opened")
        self._holdings.judged(client, round, "not-opened")

    def _take_step(self, link: ClientConnection, message: GroupReply, now: float) -> None:
        """Take a device's step in its group. A message that does not fit ends the connection."""
        try:
            self._rounds.groups.take(link.client, message, now)
        except RemoteProtocolError as error:
            self._refuse(link, str(error))

    def _take_throughput(self, link: ClientConnection, message: ThroughputReport, now: float) -> None:
        """Record what the device says of its speed. The client is asked to train once the record is durable."""
        is_free = self._rounds.requests.is_free(link)
        since = self._rounds.round + (1 if self._rounds.open is None or is_free else 2)
        record = self._declarations.hear(link, message, since, self._clients.declared.get(link.client, 0))
        if record is None:
            self._ask_if_free(link, now)
            return
        self._queue.save(record)
        self._rounds.planner.forget()
        if is_free:
            self._rounds.plan_again(link.client)

    def _take_notice(self, link: ClientConnection, message: DeviceNotice, now: float) -> None:
        """Take what the device says of itself. A device that leaves is absent until it comes back."""
        if message.leaves:
            self._leaving.add(link.client)
            self._refusals.add(link.client, LEFT)
            return
        link.sleeps = message.sleeps
        if self._tags.tell(link.client, message.tags):
            self._queue.save(TagsRecorded(link.client, tuple(sorted(message.tags.items()))))
        if self._rounds.phase == "waiting":
            self._rounds.go_on(now)
        else:
            self._rounds.requests.send_away(link)

    def _take_scores(self, link: ClientConnection, message: Evaluated, now: float) -> None:
        """Take an answer to the open evaluation. A second answer, or one to an earlier evaluation, changes nothing."""
        evaluation = self._rounds.evaluation
        if evaluation is None or message.round != evaluation.round or link.client in evaluation.answers:
            return
        problem = self._rounds.score(link.client, message, now)
        if problem is not None:
            self._refuse(link, problem)
        self._rounds.end_evaluation_if_complete(now)

    # What has become durable.

    def throughput_saved(self, record: ThroughputRecorded, now: float) -> None:
        """Go on after a device's report of its speed is durable."""
        self._declarations.saved(record)
        link = self._admitted(record.client)
        if link is not None:
            self._ask_if_free(link, now)

    def ruled(self, record: ReplyJudged) -> None:
        """Tell the client the verdict on a reply, which is durable."""
        ruling = Ruling(record.outcome, record.reason)
        self._rulings.rule(record.round, record.client, ruling)
        link = self._admitted(record.client)
        if link is not None:
            self._rule(link, record.round, ruling)

    def _ask_if_free(self, link: ClientConnection, now: float) -> None:
        if self._rounds.requests.is_free(link):
            self._rounds.requests.ask(link, now)

    def _rule(self, link: ClientConnection, round: int, ruling: Ruling) -> None:
        """Tell the client the verdict on its reply, and then the end of the run if that had to wait for the verdict."""
        self._queue.send(link, Verdict(round, *ruling))
        if link.pending:
            link.pending = 0
            if self._rounds.is_over:
                self._rounds.requests.tell_end(link)

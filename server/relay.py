"""The server's half of a run by envelopes (wire/envelope.py), between nodes of a framework, Coordinator and Store.

The carrier of the envelopes says which nodes are there and what came back, and is told what to send next. It does with
envelopes what event_loop.py does with connections, one envelope at a time for each node (relay_nodes.py). The module
uses no framework.

Records are durable before anything follows from them. A lost envelope costs time and does not change the result: the
node is called again, and says what it holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

from edgefl.errors import AuthError, RemoteProtocolError, RunError
from edgefl.protocol.wire import envelope as envelopes
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import (
    LONGEST_TEXT,
    PARTS,
    Enrol,
    Evaluated,
    Finished,
    Hello,
    Message,
    ModelParts,
    ModelRequest,
    PartialModelRequest,
    Refused,
    Trained,
)
from edgefl.protocol.wire.model_message import chunks, digest, frame_cap
from edgefl.protocol.wire.model_parts import chunks_of, held_ranges, is_bitmap_of, missing_from
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    Action,
    Admit,
    Close,
    DeviceLeft,
    DeviceRefused,
    Event,
    MessageReceived,
    Record,
    RecordSaved,
    RoundClosed,
    RoundEvaluated,
    RunCompleted,
    RunDrained,
    Save,
    Say,
    Send,
    Tick,
    Traffic,
    WakeAt,
)
from edgefl.server.member_records import AnswerOperator
from edgefl.server.relay_nodes import RelayNode
from edgefl.server.server_handshake import EnrolmentTerms, ServerHandshake
from edgefl.server.server_log import Log
from edgefl.server.store import Store

RETRY_S = 1.0  # seconds between attempts to save what the disk refused


class OutgoingEnvelope(NamedTuple):
    """An envelope for a node."""

    node: int
    purpose: str
    data: bytes


class RelayServer:
    """One run by envelopes. Call `start`, then the other methods as things happen, until `is_over`.

    say      takes lines for people
    watch    takes every record once it is durable
    clock    returns a time in seconds, of which only differences count
    pause    waits some seconds
    is_done  whether the run is over. Devices may not know it yet
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: Store,
        offer: EnrolmentTerms,
        say: Callable[[str], None],
        watch: Callable[[Record], None],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._coordinator, self._store, self._offer = coordinator, store, offer
        self._log, self._watch, self._clock, self._pause = Log(say), watch, clock, pause
        self._nodes: dict[int, RelayNode] = {}
        self._links: dict[int, RelayNode] = {}
        self._last_link = 0
        self._records: list[Record] = []
        self._is_storing = self._has_looked = False
        self._wake: float | None = None
        self._traffic = Traffic(0)
        self._digest = digest(offer.model)
        self._limit = frame_cap(len(offer.model))
        self.is_done = False

    def start(self) -> None:
        """Go on from what is stored."""
        self._carry_out(self._coordinator.start(self._clock()))

    def present(self, nodes: Collection[int]) -> None:
        """Note that these nodes are there now. Envelopes to other nodes are lost."""
        self._has_looked = True
        for name in nodes:
            self._nodes.setdefault(name, RelayNode(name))
        for name in self._nodes.keys() - set(nodes):
            self._leave(self._nodes.pop(name))

    def due(self) -> list[OutgoingEnvelope]:
        """Return the envelopes to send: at most one for each node that has answered its last envelope."""
        now = self._clock()
        if self._wake is not None and now >= self._wake:
            self._wake = None
            self._handle(Tick())
        return [
            outgoing_envelope
            for name in sorted(self._nodes)
            if (outgoing_envelope := self._outgoing_envelope(self._nodes[name], now)) is not None
        ]

    def answered(self, name: int, data: bytes) -> None:
        """Take a node's answer to its last envelope."""
        node = self._nodes.get(name)
        if node is None or node.sent is None:
            return
        try:
            envelope = envelopes.decode("device", data, self._limit)
            if envelope.run != self._offer.run:
                raise RemoteProtocolError(f"envelope of run {envelope.run}; expected run {self._offer.run}")
        except RemoteProtocolError as error:
            self.failed(name, str(error))
            return
        asked, node.sent, node.failures = node.sent, None, 0
        self._traffic = _added(self._traffic, envelope, received=len(data))
        node.has_heard |= any(isinstance(message, Finished) for message in asked.messages)
        self._read(node, envelope)
        is_listed = node.listing is not None and asked.messages == (node.listing,)
        if node.stage == "called" or is_listed or (asked.purpose != "query" and not envelope.messages):
            self.failed(name, "it has not answered")

    def failed(self, name: int, reason: str) -> None:
        """Note that an envelope to a node, or its answer, is lost. The node is called again later."""
        node = self._nodes.get(name)
        if node is None:
            return
        self.say(f"{node.who}: {reason}; calling it again", "failed")
        self._leave(node)
        node.fail(self._clock())

    @property
    def is_over(self) -> bool:
        """True if the run is over, and every node that is there has been told or was refused."""
        return (
            self.is_done
            and self._has_looked
            and all(node.has_heard or node.stage == "refused" for node in self._nodes.values())
        )

    def waits_for(self) -> str | None:
        """Return the clients that the server waits for, in one line, or None if it waits for nobody."""
        return self._coordinator.awaited(self._clock())

    @property
    def stage(self) -> tuple[str, int]:
        """The coordinator's phase, and the last closed round."""
        return self._coordinator.stage

    def say(self, line: str, kind: str = "server") -> None:
        """Show a line to people, unless there have been many of its kind."""
        self._log.say(line, kind, self._clock())

    def end(self) -> None:
        """Say how many lines were not shown."""
        self._log.end()

    # Envelopes.

    def _outgoing_envelope(self, node: RelayNode, now: float) -> OutgoingEnvelope | None:
        if node.is_to_be_called(now):
            node.meeting, node.stage = ServerHandshake(self._offer, self._coordinator.secret_of), "called"
            return self._send(node, [node.meeting.call])
        said = node.due()
        return None if said is None else self._send(node, said)

    def _send(self, node: RelayNode, said: list[Message]) -> OutgoingEnvelope:
        envelope = Envelope(self._offer.run, tuple(said))
        data = envelopes.encode("server", envelope)
        node.sent, self._traffic = envelope, _added(self._traffic, envelope, sent=len(data))
        return OutgoingEnvelope(node.name, envelope.purpose, data)

    def _read(self, node: RelayNode, envelope: Envelope) -> None:
        hello: Hello | None = None
        for message in envelope.messages:
            if isinstance(message, Refused) and node.stage != "refused":
                self.say(f"{node.who} refuses: {message.reason}", "refuses")
                if node.link in self._links:
                    self._handle(DeviceRefused(node.link, message.reason))
                self._leave(node)
                node.stage = "refused"
            elif isinstance(message, Hello):
                hello = message
            elif isinstance(message, Enrol) and hello is not None and node.stage == "called":
                self._enrol(node, hello, message)
            elif isinstance(message, ModelRequest | PartialModelRequest) and node.listing is not None:
                self._send_missing(node, message)
            elif isinstance(message, Trained | Evaluated) and node.stage == "open":
                self._handle(MessageReceived(node.link, message))

    def _enrol(self, node: RelayNode, hello: Hello, request: Enrol) -> None:
        assert node.meeting is not None  # the node was called with it
        self._last_link += 1
        node.stage, node.link, self._links[self._last_link] = "open", self._last_link, node
        node.has_model, node.owes = request.model == self._digest, request.pending > 0
        node.takes_parts = request.model == PARTS and bool(self._offer.parts)
        try:
            node.meeting.hear(hello)
            joined = node.meeting.joined(request, node.link)
        except AuthError as error:
            self._refuse(node, str(error))
            return
        self._handle(joined)

    def _welcome(self, node: RelayNode, client: int) -> None:
        if node.takes_parts:
            node.client, node.listing = client, ModelParts(list(self._offer.parts))
            return
        model = () if node.has_model else chunks(self._offer.model, 0)
        node.welcome(client, [self._offer.welcome(client), *model])

    def _send_missing(self, node: RelayNode, request: ModelRequest | PartialModelRequest) -> None:
        """Welcome a node that has said which parts of the model it has, and send it the other bytes."""
        listing, model, held = node.listing, self._offer.model, b""
        assert listing is not None and node.client is not None  # the list was sent after the node's admission
        if isinstance(request, PartialModelRequest):
            held = request.held
            if not is_bitmap_of(held, len(listing.parts)):
                expected = f"expected a bitmap of the {len(listing.parts)} listed parts"
                self._refuse(node, f"held of {len(held)} bytes; {expected}")
                return
        missing = missing_from(0, len(model), held_ranges(listing.parts, held))
        node.listing, waiting = None, node.box
        node.welcome(node.client, [listing, self._offer.welcome(node.client), *chunks_of(model, missing), *waiting])

    def _refuse(self, node: RelayNode, reason: str) -> None:
        self.say(f"refused {node.who}: {reason}", "refused")
        self._leave(node)
        node.stage, node.box = "refused", [Refused(reason[:LONGEST_TEXT])]

    def _leave(self, node: RelayNode) -> None:
        """Forget a node's connection. Messages on their way in both directions are lost."""
        link = node.leave()
        if self._links.pop(link, None) is not None:
            self._handle(DeviceLeft(link))

    # The coordinator.

    def _handle(self, event: Event) -> None:
        self._carry_out(self._coordinator.handle(event, self._clock()))

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Save):
                self._records.append(action.record)
            elif isinstance(action, WakeAt):
                self._wake = action.time
            elif isinstance(action, Say):
                self.say(action.line)
            elif isinstance(action, AnswerOperator | RunDrained):
                continue  # envelopes bring no commands
            elif isinstance(action, RunCompleted):
                self.is_done = True
            elif (node := self._links.get(action.link)) is not None:
                self._turn(node, action)
        if not self._is_storing:
            self._store_all()

    def _turn(self, node: RelayNode, action: Admit | Send | Close) -> None:
        if isinstance(action, Admit):
            self._welcome(node, action.client)
        elif isinstance(action, Send):
            node.tell(action.message)
        else:
            self._refuse(node, action.reason)

    def _store_all(self) -> None:
        """Save the records, and go on with what follows from them, in the order of the records."""
        self._is_storing = True
        while self._records:
            batch, self._records = self._records, []
            self._save(batch)
            for record in batch:
                self._watch(record)
                if isinstance(record, RoundClosed | RoundEvaluated):
                    self._save([replace(self._traffic, round=record.round)])
                self._handle(RecordSaved(record))
        self._is_storing = False

    def _save(self, batch: list[Record]) -> None:
        """Save the batch, however long the disk refuses."""
        has_complained = False
        while True:
            try:
                self._store.save(batch)
                return
            except RunError as error:
                if not has_complained:
                    self.say(f"cannot store: {error}; trying again every {RETRY_S:g} s", "storage")
                has_complained = True
                self._pause(RETRY_S)


def _added(total: Traffic, envelope: Envelope, sent: int = 0, received: int = 0) -> Traffic:
    headers = sent + received - envelope.payload_bytes
    return Traffic(
        total.round,
        total.sent + sent,
        total.received + received,
        total.sent_headers + (headers if sent else 0),
        total.received_headers + (headers if received else 0),
    )

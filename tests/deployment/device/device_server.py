"""A server for the tests of devices: it speaks the messages of the protocol, in memory, for one device.

Not the real one: it has no coordinator. It plays a script of rounds and remembers which it has judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgefl.deployment.device.device_protocol import Device
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.messages import (
    PARTS,
    Challenge,
    Enrol,
    Evaluate,
    Evaluated,
    Finished,
    Hello,
    Message,
    ModelPart,
    ModelParts,
    ModelRequest,
    PartialModelRequest,
    Refused,
    Train,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.model_message import chunks
from edgefl.protocol.wire.model_parts import chunks_of, held_ranges, missing_from

RUN = "run-of-the-test"
NONCE = bytes(32)


@dataclass
class ScriptedServer:
    """Asks its device for the rounds of a script, one after the other, then for an evaluation, then it has finished.

    parts     parts of the model that it lists for a device that takes parts
    outcomes  what it makes of the reply to a round, where that is not "accepted"
    replies   what has been judged, by round: what a real server has stored
    """

    welcome: Welcome
    model: bytes
    script: Mapping[int, Train]
    evaluate: Evaluate | None = None
    key: bytes | None = None  # None in a run without keys
    secret: bytes | None = None  # with which its device has enrolled there
    run: str = RUN
    parts: list[ModelPart] = field(default_factory=list)
    outcomes: Mapping[int, str] = field(default_factory=dict)
    replies: dict[int, Trained] = field(default_factory=dict)
    scores: list[Evaluated] = field(default_factory=list)
    received: list[Message] = field(default_factory=list)  # over the last connection

    def connect(self) -> Connection:
        """A new connection of the device."""
        self._connection, self._pending, self.received = Connection("server"), 0, []
        return self._connection

    def answers(self, message: Message) -> Iterator[Message]:
        """Yield the answers of the server to a message."""
        self.received.append(message)
        match message:
            case Hello():
                self._hello = message
                if message.run not in ("", self.run):
                    yield Refused(f"run={message.run}; expected {self.run}")
                    return
                yield Challenge(self.run, NONCE, handshake.proof(self._proven(), "server", *self._meeting()))
            case Enrol():
                expected = handshake.proof(self._proven(), "device", *self._meeting())
                handshake.check(expected, message.proof, "the device")
                self.secret = message.secret or self.secret
                self._pending = message.pending
                if self.parts and message.model == PARTS:
                    yield ModelParts(self.parts)
                yield self.welcome
                if self._connection.state == "ready":
                    yield from self._next()
            case ModelRequest():
                yield from chunks(self.model, message.offset)
                yield from self._next()
            case PartialModelRequest():
                missing = missing_from(message.offset, len(self.model), held_ranges(self.parts, message.held))
                yield from chunks_of(self.model, missing)
                yield from self._next()
            case Trained():
                first = self.replies.setdefault(message.round, message)
                assert first == message, "a round was trained twice with different results"
                self.judged()
                yield Verdict(message.round, self.outcomes.get(message.round, "accepted"), "")
                yield from self._next()
            case Evaluated():
                self.scores.append(message)
                yield Finished("all rounds are done")

    def judged(self) -> None:
        """Called when a reply has been stored."""

    def _next(self) -> Iterator[Message]:
        due = [number for number in sorted(self.script) if number not in self.replies]
        if due and due[0] != self._pending:
            yield self.script[due[0]]
        elif not due and self._pending in (0, *self.replies):
            yield self.evaluate or Finished("all rounds are done")
        self._pending = 0 if self._pending in self.replies else self._pending

    def _proven(self) -> bytes | None:
        return self.key or (self.secret or bytes(32) if self._hello.run else None)

    def _meeting(self) -> tuple[str, int, bytes, bytes]:
        client = -1 if self._hello.client is None else self._hello.client
        return self.run, client, self._hello.nonce, NONCE


def nothing(*_: Any) -> None:
    """Nothing happens."""


def converse(device: Device, server: ScriptedServer, step: Callable[[str], None] = nothing) -> Connection:
    """Hold one connection until the run is over or both sides wait, and return the device's end of it.

    step  called before every message is handled or sent by the device, with what it is; it may raise
    """
    mine, theirs = Connection("device"), server.connect()
    to_server = [mine.send(device.hello(NONCE))]
    while to_server and (device.finished is None or device.is_waiting):
        to_device = b""
        for message in theirs.receive(to_server.pop(0)):
            to_device += b"".join(theirs.send(answer) for answer in server.answers(message))
        for message in mine.receive(to_device):
            step(f"handle {type(message).__name__}")
            for answer in device.handle(message):
                step(f"send {type(answer).__name__}")
                to_server.append(mine.send(answer))
    return mine

"""One connection between a device and the server: bytes in, messages out, and which side may send what in which state.

The module does no I/O and has no clock and no randomness. deployment/device/device_socket.py and server/event_loop.py
move the bytes. Both sides use one table of states. The separation of grammar and I/O follows python-hyper/h11.

The table says in words: A device greets, the two sides prove their keys to each other, and the server welcomes or
refuses the device. A device that does not hold the initial model asks for it once, or for the parts that it lacks. No
other message is sent until it has all of the model. From then on messages of both sides may cross. Either side may
refuse at any time, which closes the connection. The server may also close it by sending a device away for a while.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from edgefl.errors import LocalProtocolError, OtherVersionError, ProtocolError, RemoteProtocolError
from edgefl.protocol.wire import frames, messages, other_versions
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import (
    AdaptationReport,
    Challenge,
    ComeAgain,
    DeviceNotice,
    Enrol,
    Evaluate,
    Evaluated,
    Finished,
    GroupReady,
    GroupReply,
    GroupRequest,
    Hello,
    Message,
    ModelChunk,
    ModelParts,
    ModelRequest,
    OverlapReport,
    PartialModelRequest,
    Refused,
    RosterPart,
    SecureOffer,
    ThroughputReport,
    Train,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.model_message import FRAME_ALLOWANCE, frame_cap
from edgefl.protocol.wire.printable import printable
from edgefl.protocol.wire.session_terms import Agreement

Stage = Literal["greeting", "challenging", "proving", "deciding", "welcomed", "loading", "ready", "finished", "closed"]

TABLE: dict[tuple[Stage, Role, type[Message]], Stage] = {
    ("greeting", "device", Hello): "challenging",
    ("challenging", "server", Challenge): "proving",
    ("proving", "device", Enrol): "deciding",
    ("deciding", "server", ModelParts): "deciding",
    ("deciding", "server", RosterPart): "deciding",
    ("deciding", "server", SecureOffer): "deciding",
    ("deciding", "server", Welcome): "welcomed",  # "ready" if the device holds the model
    ("welcomed", "device", ModelRequest): "loading",
    ("welcomed", "device", PartialModelRequest): "loading",  # "ready" if nothing is left to send
    ("welcomed", "server", Finished): "finished",
    ("loading", "server", ModelChunk): "loading",  # "ready" after the last byte
    ("loading", "server", Finished): "finished",
    ("ready", "server", GroupRequest): "ready",
    ("ready", "server", Train): "ready",
    ("ready", "server", Verdict): "ready",
    ("ready", "server", Evaluate): "ready",
    ("ready", "server", ComeAgain): "closed",
    ("ready", "server", Finished): "finished",
    ("ready", "device", Trained): "ready",
    ("ready", "device", Evaluated): "ready",
    ("ready", "device", AdaptationReport): "ready",
    ("ready", "device", OverlapReport): "ready",
    ("ready", "device", ThroughputReport): "ready",
    ("ready", "device", GroupReady): "ready",
    ("ready", "device", GroupReply): "ready",
    ("ready", "device", DeviceNotice): "ready",
    ("finished", "device", ModelRequest): "finished",  # these ten were sent before the device knew of the end
    ("finished", "device", PartialModelRequest): "finished",
    ("finished", "device", Trained): "finished",
    ("finished", "device", Evaluated): "finished",
    ("finished", "device", AdaptationReport): "finished",
    ("finished", "device", OverlapReport): "finished",
    ("finished", "device", ThroughputReport): "finished",
    ("finished", "device", GroupReady): "finished",
    ("finished", "device", GroupReply): "finished",
    ("finished", "device", DeviceNotice): "finished",
    ("finished", "server", Verdict): "finished",  # a last reply still gets its verdict
    **{(state, role, Refused): "closed" for state in get_args(Stage) for role in get_args(Role) if state != "closed"},
}
WITH_MODEL: dict[Stage, Stage] = {"welcomed": "ready", "loading": "ready"}  # after the last byte of the model


class Connection:
    """One side of a connection.

    role   which side this is
    cap    largest message in bytes, in either direction. Welcome raises it according to the size of the model without
           its frozen parameters, which no message of a round carries
    state  a Stage of TABLE

    received_bytes, sent_bytes                number of bytes that `receive` got and that `send` returned
    received_header_bytes, sent_header_bytes  number of bytes of whole frames that are neither payload, selection nor
                                              model: frame headers and the other fields of the messages
    """

    def __init__(self, role: Role, cap: int = FRAME_ALLOWANCE, frozen_bytes: int = 0) -> None:
        """Begin a connection. This side knows already that `frozen_bytes` bytes of the model are frozen parameters. A
        list of parts tells the other side how many.
        """
        self.role: Role = role
        self.peer: Role = "server" if role == "device" else "device"
        self.state: Stage = "greeting"
        self.cap = cap
        self.received_bytes = self.sent_bytes = 0
        self.received_header_bytes = self.sent_header_bytes = 0
        self._decoder = frames.Decoder(cap)
        self._sequence = 0
        self._broken = False
        self._version = frames.VERSION  # version of the peer's frames
        self._agreement, self._frozen_bytes = Agreement(), frozen_bytes

    @property
    def mid_frame(self) -> bool:
        """True if the peer has begun a frame and not completed it. The stream must not end then."""
        return self._decoder.mid_frame

    def receive(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes, in order. The state is then the one after the last message.

        Bytes that come after Refused or after an error are counted and dropped.
        Raises  RemoteProtocolError if the peer breaks the protocol anywhere in `data`. The earlier messages of `data`
                are then lost, too, and from then on only Refused can be sent.
        """
        self.received_bytes += len(data)
        received: list[Message] = []
        if self._broken or self.state == "closed":
            return received
        try:
            for number, body in self._decoder.receive(data):
                message = _decoded(number, body)
                self._advance(self.peer, message, RemoteProtocolError)
                self.received_header_bytes += frames.HEADER.size + len(body) - payload_bytes(message)
                received.append(message)
                if self.state == "closed":
                    break
        except OtherVersionError as error:
            self._broken, self._version = True, error.version
            error.args = (_words_of(error, self.peer, self.role),)
            raise
        except RemoteProtocolError:
            self._broken = True
            raise
        return received

    def send(self, message: Message) -> bytes:
        """Return the bytes of a message for the peer. They must all be sent, in the order of the calls.

        Raises  LocalProtocolError if the state, a value or the size does not allow the message. Nothing has changed
                then.
        """
        if self._broken and not isinstance(message, Refused):
            raise LocalProtocolError(f"{_name(message)} after the peer broke the protocol; expected Refused")
        body = _encoded(message)
        if len(body) > self.cap:
            raise LocalProtocolError(f"{_name(message)} of {len(body)} bytes; the limit is {self.cap}")
        framed = other_versions.encode_first if self._version == other_versions.FIRST else frames.encode
        data = framed(messages.NUMBERS[type(message)], self._sequence, body)
        self._advance(self.role, message, LocalProtocolError)
        self._sequence += 1
        self.sent_bytes += len(data)
        self.sent_header_bytes += len(data) - payload_bytes(message)
        return data

    def refuse(self, reason: str) -> bytes:
        """Return the bytes of Refused with as much of the reason as fits, or b"" if the connection is closed."""
        if self.state == "closed":
            return b""
        text = reason.encode(errors="replace").decode()  # a file name may hold characters that UTF-8 cannot encode
        return self.send(Refused(text[: messages.LONGEST_TEXT]))

    def _advance(self, sender: Role, message: Message, fault: type[ProtocolError]) -> None:
        """Go to the state after a message, or raise `fault`."""
        after = TABLE.get((self.state, sender, type(message)))
        if after is None:
            expected = [kind.__name__ for state, role, kind in TABLE if (state, role) == (self.state, sender)]
            wanted = " or ".join(expected) or "none"
            raise fault(f"{_name(message)} from the {sender} in state {self.state!r}; expected {wanted}")
        if wrong := self._agreement.add(message):
            raise fault(f"{_name(message)} with {wrong}")
        if isinstance(message, Welcome):
            frozen = max(self._frozen_bytes, self._agreement.listed_bytes)
            self.cap = self._decoder.cap = max(self.cap, frame_cap(message.model_bytes - frozen))
        self.state = WITH_MODEL.get(after, after) if self._agreement.has_model else after


def payload_bytes(message: Message) -> int:
    """Return the bytes of a message's payloads and selection, of its part of the model, or of a step in a group. Other
    messages have 0.
    """
    if isinstance(message, ModelChunk | GroupReply):
        return len(message.data)
    selection = len(message.selection) if isinstance(message, Train) else 0
    return selection + sum(map(len, message.payload.values())) if isinstance(message, Train | Trained | Evaluate) else 0


def _words_of(error: OtherVersionError, peer: Role, role: Role) -> str:
    """Say what frames of another version mean, which side to update, and the reason of a Refused among the frames."""
    older = peer if error.version < frames.VERSION else role
    words = (
        f"the {peer} sends frames of version {error.version}, and the {role} reads version {frames.VERSION}; expected"
        f" one version: update edgefl on the {older}"
    )
    if error.type == messages.NUMBERS[Refused] and error.body:
        try:
            refused = messages.decode(error.type, error.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return words
        assert isinstance(refused, Refused)
        return f"{words} (the {peer} refuses: {refused.reason})"
    return words


def _decoded(number: int, body: bytearray) -> Message:
    if number not in messages.TYPES:
        raise RemoteProtocolError(f"message of type {number}; expected 1 to {max(messages.TYPES)}")
    try:
        return messages.decode(number, body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(printable(f"{messages.TYPES[number].__name__}: {error}")) from None


def _encoded(message: Message) -> bytes:
    """Return the bytes of a message, after a check that the peer will accept its fields."""
    try:
        messages.check(message)
        return messages.encode(message)
    except (msgspec.ValidationError, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"{_name(message)}: {error}") from None


def _name(message: Message) -> str:
    return type(message).__name__

"""Several messages of the wire as one array of bytes, for a framework that carries messages itself.

    header   2  magic "EL"
             1  version, 1
             1  writer: 0 the server, 1 a device
             1  length of the run's id in bytes
             1  0
             4  number of messages
             4  number of bytes after the run's id
             4  CRC-32 of the 14 bytes before and of the run's id
    run      id of the run, UTF-8
    frames   each message as in frames.py, numbered from 0

All numbers are little-endian and unsigned. A device need not keep anything in memory between two envelopes. The first
envelope has only Challenge, which the device answers with Hello and Enrol. The second envelope has Welcome, the initial
model if the device lacks it, verdicts, and the device's next task. If the device can take the model in parts, and the
model has frozen parameters, an envelope with ModelParts comes before it. The device answers with ModelRequest or
PartialModelRequest. The list comes once more before Welcome, and the model leaves out the parts that the device has.

A carrier names an envelope by STYPE, as the array ARRAY of the record RECORD. The module uses no framework.
deployment/device/relayed_device.py and server/relay.py decide what a side says, and when.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

import msgspec

from edgefl.errors import LocalProtocolError, RemoteProtocolError
from edgefl.protocol.wire import frames, messages
from edgefl.protocol.wire.connection import payload_bytes
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import (
    AdaptationReport,
    Challenge,
    Enrol,
    Evaluate,
    Evaluated,
    Finished,
    Hello,
    Message,
    ModelChunk,
    ModelParts,
    ModelRequest,
    OverlapReport,
    PartialModelRequest,
    Refused,
    Train,
    Trained,
    Verdict,
    Welcome,
)
from edgefl.protocol.wire.peer_text import PeerText
from edgefl.protocol.wire.printable import printable
from edgefl.protocol.wire.session_terms import Agreement

MAGIC, VERSION = b"EL", 1
HEADER = struct.Struct("<2sBBBBIII")
CHECKED = slice(0, 14)  # the part of a header that its own checksum covers
LARGEST = 2**32 - 1
LONGEST_RUN = 64  # characters
RECORD, ARRAY, DTYPE, STYPE = "edgefl", "letter", "uint8", "edgefl.letter/1"

WRITERS: tuple[Role, Role] = ("server", "device")
MAY: dict[Role, tuple[type[Message], ...]] = {
    "server": (Challenge, ModelParts, Welcome, ModelChunk, Verdict, Train, Evaluate, Finished, Refused),
    "device": (
        *(Hello, Enrol, ModelRequest, PartialModelRequest),
        *(Trained, Evaluated, AdaptationReport, OverlapReport, Refused),
    ),
}


class Envelope(NamedTuple):
    """The messages that one side sends to the other at once, and the id of their run."""

    run: str
    messages: tuple[Message, ...]

    @property
    def payload_bytes(self) -> int:
        """The number of bytes of the envelope's payloads, selections and parts of the model."""
        return sum(map(payload_bytes, self.messages))

    @property
    def purpose(self) -> str:
        """The word that frameworks have for the envelope: "train", "evaluate", or otherwise "query"."""
        kinds = {type(message) for message in self.messages}
        return "train" if Train in kinds else "evaluate" if Evaluate in kinds else "query"


def encode(writer: Role, envelope: Envelope) -> bytes:
    """Return the bytes of an envelope. Raises LocalProtocolError if the other side would refuse it."""
    run = envelope.run.encode()
    if not 0 < len(envelope.run) <= LONGEST_RUN or len(run) > 255:
        raise LocalProtocolError(f"run {envelope.run!r}; expected an id of 1 to {LONGEST_RUN} characters")
    bodies = []
    agreement = Agreement(in_envelope=True)
    for number, message in enumerate(envelope.messages):
        name = type(message).__name__
        if not isinstance(message, MAY[writer]):
            raise LocalProtocolError(f"{name} in an envelope from the {writer}; expected {_names(writer)}")
        if wrong := agreement.add(message):
            raise LocalProtocolError(f"{name} with {wrong}")
        try:
            messages.check(message)
        except (ValueError, TypeError, OverflowError) as error:
            raise LocalProtocolError(f"{name}: {error}") from None
        bodies.append(frames.encode(messages.NUMBERS[type(message)], number, messages.encode(message)))
    rest = b"".join(bodies)
    if len(rest) > LARGEST:
        raise LocalProtocolError(f"envelope of {len(rest)} bytes; expected at most {LARGEST}")
    fields = MAGIC, VERSION, WRITERS.index(writer), len(run), 0, len(bodies), len(rest)
    head = HEADER.pack(*fields, 0)[CHECKED]
    return HEADER.pack(*fields, crc32(run, crc32(head))) + run + rest


def decode(writer: Role, data: bytes, limit: int) -> Envelope:
    """Decode the envelope that the side `writer` wrote.

    limit   largest envelope that is read, in bytes
    Raises  RemoteProtocolError if `data` is not an envelope, is damaged or too large, or has a message that this side
            may not send. No memory of a claimed size is allocated before the bytes are known to be there.
    """
    if len(data) > limit:
        raise RemoteProtocolError(f"envelope of {len(data)} bytes; the limit is {limit}")
    if len(data) < HEADER.size:
        raise RemoteProtocolError(f"envelope of {len(data)} bytes; expected at least {HEADER.size}")
    magic, version, side, run_bytes, zero, count, rest, checksum = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise RemoteProtocolError(f"envelope with {magic!r}, version {version}; expected {MAGIC!r}, version {VERSION}")
    begin = HEADER.size + run_bytes
    run = data[HEADER.size : begin]
    if len(data) != begin + rest:
        raise RemoteProtocolError(f"envelope of {len(data)} bytes; expected {begin + rest}, as its header states")
    if (found := crc32(run, crc32(data[CHECKED]))) != checksum:
        raise RemoteProtocolError(f"envelope whose header has checksum {checksum:#010x}; expected {found:#010x}")
    if side >= len(WRITERS) or WRITERS[side] != writer or zero:
        raise RemoteProtocolError(f"envelope written by side {side}; expected {WRITERS.index(writer)}, the {writer}")
    if count > rest // frames.HEADER.size:
        raise RemoteProtocolError(f"envelope of {count} messages in {rest} bytes; expected fewer messages")
    return Envelope(_text(run), _messages(writer, memoryview(data)[begin:], count))


def _messages(writer: Role, data: memoryview, count: int) -> tuple[Message, ...]:
    decoder, agreement, found = frames.Decoder(len(data)), Agreement(in_envelope=True), []
    for number, body in decoder.receive(data):  # type: ignore[arg-type]  # receive takes a view of the data, too
        kind = messages.TYPES.get(number)
        if kind is None or kind not in MAY[writer]:
            what = f"type {number}" if kind is None else kind.__name__
            raise RemoteProtocolError(f"{what} in an envelope from the {writer}; expected {_names(writer)}")
        try:
            message = messages.decode(number, body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(printable(f"{kind.__name__}: {error}")) from None
        if wrong := agreement.add(message):
            raise RemoteProtocolError(f"{kind.__name__} with {wrong}")
        found.append(message)
    if decoder.mid_frame or len(found) != count:
        raise RemoteProtocolError(f"envelope of {len(found)} whole messages; expected {count}, as its header states")
    return tuple(found)


def _text(run: bytes) -> str:
    try:
        text = run.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"envelope whose run id is not UTF-8 text ({error})") from None
    if not 0 < len(text) <= LONGEST_RUN:
        raise RemoteProtocolError(f"envelope whose run id has {len(text)} characters; expected 1 to {LONGEST_RUN}")
    return PeerText(text)


def _names(writer: Role) -> str:
    return ", ".join(kind.__name__ for kind in MAY[writer])

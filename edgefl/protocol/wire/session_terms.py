"""The terms that earlier messages of a connection have settled, and that the values of later messages must keep.

connection.py decides the order of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgefl.protocol.wire.messages import (
    PARTS,
    PROTOCOL,
    Challenge,
    Enrol,
    Hello,
    Message,
    ModelChunk,
    ModelParts,
    ModelRequest,
    PartialModelRequest,
    RosterPart,
    SecureOffer,
    Welcome,
)
from edgefl.protocol.wire.model_message import LARGEST_MODEL
from edgefl.protocol.wire.model_parts import held_ranges, is_bitmap_of, missing_from, total_bytes


class Agreement:
    """The agreement of the two sides of one connection, which each side keeps.

    has_model  whether the device holds all of the initial model
    """

    def __init__(self, in_envelope: bool = False) -> None:
        """Begin an agreement. In an envelope the two sides have agreed on the parts of the model in earlier envelopes.
        So a list of parts may come at any time, and the bytes of the model leave out any of the listed parts.
        """
        self.has_model, self._in_envelope = False, in_envelope
        self._run = ""
        self._client: int | None = None
        self._held = b""  # digest of the model that the device holds
        self._model_bytes = 0
        self._parts = ModelParts([])  # parts that the device may hold
        self._roster_bytes, self._roster_end = 0, 0  # size of the roster that comes in parts, and end of the last part
        self._missing: list[tuple[int, int]] = []  # first byte and end of each range that is still to be sent

    @property
    def listed_bytes(self) -> int:
        """The bytes of the parts that the server has listed, which are frozen parameters."""
        return total_bytes(self._parts.parts)

    def add(self, message: Message) -> str | None:
        """Take a message in, unless it contradicts earlier messages. Return what is wrong with it, or None."""
        return _RULES[type(message)](self, message) if type(message) in _RULES else None

    def _hello(self, message: Hello) -> str | None:
        if message.protocol != PROTOCOL:
            older = "device" if message.protocol < PROTOCOL else "server"
            return f"protocol={message.protocol}; expected {PROTOCOL}: update edgefl on the {older}"
        self._run, self._client = message.run, message.client
        return None

    def _challenge(self, message: Challenge) -> str | None:
        if self._run not in ("", message.run):
            return f"run={message.run!r}; expected {self._run!r}, in which the device has enrolled"
        return None

    def _enrol(self, message: Enrol) -> str | None:
        self._held = message.model
        return None

    def _roster_part(self, message: RosterPart) -> str | None:
        if self._roster_bytes not in (0, message.size):
            return f"size={message.size}; expected {self._roster_bytes}, as in the part before"
        if message.offset != self._roster_end:
            return f"offset={message.offset}; expected {self._roster_end}"
        end = message.offset + len(message.data)
        if end > message.size:
            return f"bytes of the roster up to {end}; expected at most {message.size}, the size of the roster"
        self._roster_bytes, self._roster_end = message.size, end
        return None

    def _secure_offer(self, message: SecureOffer) -> str | None:
        if self._roster_end != self._roster_bytes:
            return f"{self._roster_end} of {self._roster_bytes} bytes of the roster before it; expected all bytes"
        if self._roster_bytes and message.roster:
            return f"a roster of {len(message.roster)} bytes after the parts of a roster; expected one of them"
        return None

    def _welcome(self, message: Welcome) -> str | None:
        if self._client not in (None, message.client):
            return f"client={message.client}; expected {self._client}"
        if not 0 < message.model_bytes <= LARGEST_MODEL:
            return f"model_bytes={message.model_bytes}; expected 1 to {LARGEST_MODEL}"
        listed = max((part.offset + part.size for part in self._parts.parts), default=0)
        if listed > message.model_bytes:
            return f"model_bytes={message.model_bytes}; expected at least {listed}, the end of the listed parts"
        self._model_bytes, self._missing = message.model_bytes, [(0, message.model_bytes)]
        self.has_model = message.model_digest == self._held
        return None

    def _model_request(self, message: ModelRequest) -> str | None:
        if message.offset >= self._model_bytes and not self._in_envelope:
            return f"offset={message.offset}; expected less than the {self._model_bytes} bytes of the model"
        self._missing = [(message.offset, self._model_bytes)]
        return None

    def _model_parts(self, message: ModelParts) -> str | None:
        if (self._held != PARTS and not self._in_envelope) or self._parts.parts:
            return f"{len(message.parts)} parts; expected one list, for a device that can take the model in parts"
        ends = [0, *(part.offset + part.size for part in message.parts)]
        if any(part.offset < end for part, end in zip(message.parts, ends, strict=False)):
            return f"{len(message.parts)} parts out of order; expected ascending offsets without overlaps"
        self._parts = message
        return None

    def _partial_request(self, message: PartialModelRequest) -> str | None:
        if self._in_envelope:
            return None  # server/relay.py has the list
        if not is_bitmap_of(message.held, len(self._parts.parts)):
            return f"held of {len(message.held)} bytes; expected a bitmap of the {len(self._parts.parts)} listed parts"
        if wrong := self._model_request(ModelRequest(message.offset)):
            return wrong
        held = held_ranges(self._parts.parts, message.held)
        self._missing = missing_from(message.offset, self._model_bytes, held)
        self.has_model = not self._missing
        return None

    def _model_chunk(self, message: ModelChunk) -> str | None:
        start, limit = self._missing[0] if self._missing else (self._model_bytes, self._model_bytes)
        if self._in_envelope:
            start = self._after_parts(start, message.offset)
        if message.offset != start:
            return f"offset={message.offset}; expected {start}"
        end = start + len(message.data)
        if end > limit:
            what = (
                "the size of the model" if limit == self._model_bytes else "where a part begins that the device holds"
            )
            return f"bytes of the model up to {end}; expected at most {limit}, {what}"
        self._missing = self._missing[1:] if end == limit else [(end, limit), *self._missing[1:]]
        self.has_model = not self._missing
        return None

    def _after_parts(self, start: int, offset: int) -> int:
        """Return the end of the listed parts that lie between the byte `start` and `offset` without a gap."""
        for part in self._parts.parts:
            if part.offset == start < offset:
                start += part.size
        return start


_RULES: dict[type[Message], Callable[[Agreement, Any], str | None]] = {
    Hello: Agreement._hello,
    Challenge: Agreement._challenge,
    Enrol: Agreement._enrol,
    RosterPart: Agreement._roster_part,
    SecureOffer: Agreement._secure_offer,
    Welcome: Agreement._welcome,
    ModelRequest: Agreement._model_request,
    ModelParts: Agreement._model_parts,
    PartialModelRequest: Agreement._partial_request,
    ModelChunk: Agreement._model_chunk,
}

"""The terms that earlier messages of a connection have settled, and that the values of later messages must keep.

connection.py decides the order of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgefl.protocol.wire.messages import PROTOCOL, Challenge, Enrol, Hello, Message, ModelChunk, ModelRequest, Welcome
from edgefl.protocol.wire.model_message import LARGEST_MODEL


class Agreement:
    """The agreement of the two sides of one connection, which each side keeps.

    has_model  whether the device holds all of the initial model
    """

    def __init__(self) -> None:
        self.has_model = False
        self._run = ""
        self._client: int | None = None
        self._held = b""  # digest of the model that the device holds
        self._model_bytes = 0
        self._next_byte = 0  # offset in the model of the download's next byte

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

    def _welcome(self, message: Welcome) -> str | None:
        if self._client not in (None, message.client):
            return f"client={message.client}; expected {self._client}"
        if not 0 < message.model_bytes <= LARGEST_MODEL:
            return f"model_bytes={message.model_bytes}; expected 1 to {LARGEST_MODEL}"
        self._model_bytes = message.model_bytes
        self.has_model = message.model_digest == self._held
        return None

    def _model_request(self, message: ModelRequest) -> str | None:
        if message.offset >= self._model_bytes:
            return f"offset={message.offset}; expected less than the {self._model_bytes} bytes of the model"
        self._next_byte = message.offset
        return None

    def _model_chunk(self, message: ModelChunk) -> str | None:
        if message.offset != self._next_byte:
            return f"offset={message.offset}; expected {self._next_byte}"
        end = message.offset + len(message.data)
        if end > self._model_bytes:
            return f"bytes of the model up to {end}; expected at most {self._model_bytes}, the size of the model"
        self._next_byte = end
        self.has_model = end == self._model_bytes
        return None


_RULES: dict[type[Message], Callable[[Agreement, Any], str | None]] = {
    Hello: Agreement._hello,
    Challenge: Agreement._challenge,
    Enrol: Agreement._enrol,
    Welcome: Agreement._welcome,
    ModelRequest: Agreement._model_request,
    ModelChunk: Agreement._model_chunk,
}

"""Asks a server which run it serves: the beginning of a handshake, and no more. Not a device of a run
(device_protocol.py).

A device that takes part in several runs, one after the other, has to know which is asked for before it says what it
holds. A server that knows the device's key proves that here, too; in a run without keys nothing is proven yet, and what
the device has of a run is used only once the server has proven the secret of that run (device_protocol.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from edgefl.errors import RunError
from edgefl.methods.rounds.provenance import provenance
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import PROTOCOL, Challenge, Hello, Message, Refused


class RunInquiry:
    """One question, for DeviceSocket. `finished`: the run, once the server has said it.

    client  the id that the device has there; None in a run without keys, where the server may choose
    key     the 32 bytes that both sides know; None in a run without keys
    """

    is_waiting = False

    def __init__(self, client: int | None, key: bytes | None) -> None:
        self.client, self._key = client, key
        self._nonce = b""
        self.finished: str | None = None

    def hello(self, nonce: bytes) -> Hello:
        """The only message. `nonce`: 32 random bytes, new each time."""
        self._nonce = nonce
        return Hello(PROTOCOL, "", self.client, nonce, provenance())

    def handle(self, message: Message) -> Iterator[Message]:
        """Answers nothing. Raises AuthError if the server does not know the key, RunError if it refuses."""
        if isinstance(message, Refused):
            raise RunError(f"the server refuses: {message.reason}")
        assert isinstance(message, Challenge)  # the connection lets nothing else through
        client = -1 if self.client is None else self.client
        expected = handshake.proof(self._key, "server", message.run, client, self._nonce, message.nonce)
        handshake.check(expected, message.proof, "the server")
        self.finished = message.run
        yield from ()

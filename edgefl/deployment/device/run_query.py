"""The question which run a server serves: the beginning of a handshake, and no more.

A device that takes part in several runs has to know the run before it says what it holds. A server that knows the
device's key proves that here, too. In a run without keys this handshake proves nothing. There the device uses its files
of a run only after the server has proven the secret of that run (device_protocol.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from edgefl.errors import RunError
from edgefl.methods.rounds.provenance import provenance
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import PROTOCOL, Challenge, Hello, Message, Refused


class RunInquiry:
    """One question, for DeviceSocket. `finished` is the id of the run, once the server has said it.

    client  id of the device there. None in a run without keys, where the server may choose an id
    key     the 32 bytes that both sides know. None in a run without keys
    """

    is_waiting, frozen_bytes = False, 0

    def __init__(self, client: int | None, key: bytes | None) -> None:
        self.client, self._key = client, key
        self._nonce = b""
        self.finished: str | None = None

    def hello(self, nonce: bytes) -> Hello:
        """Return the only message. `nonce` is 32 random bytes, new for each connection."""
        self._nonce = nonce = handshake.marked(nonce, self._key)
        return Hello(PROTOCOL, "", self.client, nonce, provenance())

    def handle(self, message: Message) -> Iterator[Message]:
        """Take the run from Challenge, and answer nothing.

        Raises  AuthError if the server does not know the key, RunError if it refuses.
        """
        if isinstance(message, Refused):
            raise RunError(f"the server refuses: {message.reason}")
        assert isinstance(message, Challenge)  # the connection lets no other message through
        client = -1 if self.client is None else self.client
        expected = handshake.proof(self._key, "server", message.run, client, self._nonce, message.nonce)
        handshake.check(expected, message.proof, "the server")
        self.finished = message.run
        yield from ()

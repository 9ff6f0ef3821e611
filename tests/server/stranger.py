"""A peer that speaks the protocol by hand over a plain or a TLS socket, to say what a real device would not."""

from __future__ import annotations

import socket
import ssl
import time
from types import TracebackType

from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.messages import PROTOCOL, Challenge, Enrol, Hello, Message, Refused, Welcome

NONCE = bytes(range(32))
ANSWER_S = 30.0


class Stranger:
    """One connection to 127.0.0.1:port. In a with block it is closed at the end."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        link = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self.link = link if context is None else context.wrap_socket(link, server_hostname="127.0.0.1")
        self.connection = Connection("device")
        self._messages: list[Message] = []

    def __enter__(self) -> Stranger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.close()

    def say(self, message: Message) -> None:
        self.link.sendall(self.connection.send(message))

    def replay(self, data: bytes, instead_of: Message) -> None:
        """Bytes that were recorded, where it would say this."""
        self.connection.send(instead_of)
        self.link.sendall(data)

    def hear(self) -> Message | None:
        """Return the next message, or None once the server has closed."""
        while not self._messages:
            try:
                data = self.link.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._messages = self.connection.receive(data)
        return self._messages.pop(0)

    def refusal(self) -> str:
        """Why the server refuses. Raises RuntimeError if it says anything else, or closes without a word."""
        message = self.hear()
        if not isinstance(message, Refused):
            raise RuntimeError(f"{message} from the server; expected Refused")
        return message.reason

    def greet(self, client: int | None, run: str = "") -> Challenge | Refused:
        """Hello, and the answer to it."""
        self.say(Hello(PROTOCOL, run, client, NONCE, "a stranger"))
        answer = self.hear()
        assert isinstance(answer, Challenge | Refused)
        return answer

    def prove(self, challenge: Challenge, client: int, key: bytes) -> None:
        """Enrol, with the proof that this key gives."""
        proof = handshake.proof(key, "device", challenge.run, client, NONCE, challenge.nonce)
        self.say(Enrol(proof, 1.0, b"", 0, b"", 0, b"", b"", [10]))

    def enrol(self, client: int, key: bytes) -> None:
        """All of the handshake, with a key that the server knows."""
        challenge = self.greet(client)
        assert isinstance(challenge, Challenge)
        self.prove(challenge, client, key)
        assert isinstance(self.hear(), Welcome)

    def trickle(self, data: bytes, pause_s: float = 0.2) -> None:
        """The bytes one by one, until they are all sent or the server has had enough."""
        try:
            for at in range(len(data)):
                self.link.sendall(data[at : at + 1])
                time.sleep(pause_s)
        except (ConnectionError, ssl.SSLError):
            pass

"""One connection of the server: bytes <-> messages, the handshake, timeouts, and the model in chunks.

Peer is an asyncio Protocol: every method is a callback that never blocks, and it decides nothing about the run. A peer
can at most end its own connection, with one line that says why on both sides.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, cast

from edgefl.errors import AuthError, DamagedFrameError, ProtocolError
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.messages import (
    PARTS,
    Enrol,
    Hello,
    Message,
    ModelParts,
    ModelRequest,
    PartialModelRequest,
    Refused,
)
from edgefl.protocol.wire.model_message import chunks
from edgefl.protocol.wire.model_parts import chunks_of, held_ranges, missing_from, total_bytes
from edgefl.server.events import DeviceJoined
from edgefl.server.server_handshake import EnrolmentTerms, ServerHandshake
from edgefl.system.log_lines import Alert

LOADING = ("deciding", "welcomed", "loading")  # states of a connection whose device lacks the model or Welcome
UNREAD = 2  # number of largest messages that a device may leave unread
SLOWEST = 16_384  # bytes per second. A frame of n bytes may take n / SLOWEST seconds beyond Patience.frame_s


@dataclass(frozen=True)
class Patience:
    """The seconds after which a peer that does not keep up is dropped."""

    handshake_s: float = 10.0  # from connected to enrolled
    frame_s: float = 20.0  # from the first to the last byte of a small frame
    silence_s: float = 60.0  # for acknowledging bytes that were sent (TCP_USER_TIMEOUT of the kernel)


@dataclass(frozen=True)
class ConnectionTerms(EnrolmentTerms):
    """The offer to every connection of a run, and the time limits of a connection."""

    patience: Patience


class Hub(Protocol):
    """The protocol of the hub to which a connection reports, which is in server/event_loop.py."""

    def enrol(self, peer: Peer, joined: DeviceJoined) -> None: ...

    def secret_of(self, client: int) -> bytes | None: ...

    def received(self, peer: Peer, message: Message) -> None: ...

    def refused(self, peer: Peer, reason: str) -> None: ...

    def left(self, peer: Peer) -> None: ...

    def say(self, line: str, kind: str) -> None: ...


class Peer(asyncio.Protocol):
    """A connected device.

    client     id of the client once it is welcome
    name       name for people
    address    address from which it comes
    is_broken  whether it may not have heard what was said last
    heard_at   time of its last bytes, by the loop's time

    A device loads the model before anything else: messages of the run wait until it has all of the model.
    """

    def __init__(self, link: int, service: ConnectionTerms, hub: Hub, name: str) -> None:
        self.link, self.name, self.address = link, name, name
        self.client: int | None = None
        self.is_broken, self.heard_at = False, 0.0
        self.connection = Connection("server", frozen_bytes=total_bytes(service.parts))
        self._service, self._hub = service, hub
        self._meeting: ServerHandshake | None = None
        self._takes_parts = False  # whether the device can take the model in parts
        self._chunks: Iterator[Message] = iter(())  # of the model, or the messages up to Welcome
        self._waiting: list[Message] = []
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    # Calls from asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        _watch_silence(self._transport.get_extra_info("socket"), self._service.patience.silence_s)
        self._expect(self._service.patience.handshake_s, "the handshake")

    def data_received(self, data: bytes) -> None:
        was_inside, messages = self.connection.mid_frame, []
        self.heard_at = self._loop.time()
        try:
            messages = self.connection.receive(data)
            for message in messages:
                self._take(message)
        except DamagedFrameError as error:
            self.drop(str(error))  # without a word, so that a device tries again
        except (ProtocolError, AuthError) as error:
            self.refuse(str(error))
        if self.client is not None and (messages or self.connection.mid_frame != was_inside):
            self._watch_frame()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._send_chunks()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget_timer()
        self.is_broken |= isinstance(error, ssl.SSLError)
        self._hub.left(self)

    # Calls from the server.

    def welcome(self, client: int) -> None:
        """Welcome the client, which is enrolled. From now on it may send anything that a round needs."""
        self.client = client
        self.name = f"client {client}"
        self._forget_timer()
        parts = [ModelParts(list(self._service.parts))] if self._takes_parts and self._service.parts else []
        self._chunks = iter([*parts, *self._service.secure, self._service.welcome(client)])
        self._send_chunks()

    def send(self, message: Message) -> None:
        """Send a message of the run, as soon as the device has the model. A device that reads nothing is dropped."""
        if self.connection.state in LOADING:
            self._waiting.append(message)
            return
        self._write(message)
        unread, limit = self._transport.get_write_buffer_size(), UNREAD * self.connection.cap
        if unread > limit:
            self.drop(f"the device has left {unread} bytes unread; expected at most {limit}")

    def _write(self, message: Message) -> None:
        """Write a message, unless the device has refused in the bytes that are being answered."""
        if not self._transport.is_closing() and self.connection.state != "closed":
            self._transport.write(self.connection.send(message))

    def refuse(self, reason: str) -> None:
        """Tell the peer why, and close the connection."""
        if self._transport.is_closing():
            return
        self._say("refused", reason)
        self._transport.write(self.connection.refuse(reason))
        self._transport.close()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._transport.close()

    def drop(self, reason: str) -> None:
        """Close the connection at once."""
        self.is_broken = True
        self._say("dropped", reason)
        self._transport.abort()

    def _say(self, what: str, reason: str) -> None:
        who = "strangers" if self.client is None else f"client {self.client}"
        clients = () if self.client is None else (self.client,)
        self._hub.say(Alert(f"{what} {self.name}: {reason}", what, *clients), f"{what} {who}")

    # The handshake.

    def _take(self, message: Message) -> None:
        if self._transport.is_closing():
            return
        if isinstance(message, Hello):
            self._challenge(message)
        elif isinstance(message, Enrol):
            self._check(message)
        elif isinstance(message, ModelRequest):
            self._chunks = chunks(self._service.model, message.offset)
            self._send_chunks()
        elif isinstance(message, PartialModelRequest):
            held = held_ranges(self._service.parts, message.held)
            missing = missing_from(message.offset, len(self._service.model), held)
            self._chunks = chunks_of(self._service.model, missing)
            self._send_chunks()
        elif isinstance(message, Refused):
            if self.client is not None:
                self._hub.refused(self, message.reason)
            self.drop(f"it refused the server: {message.reason}")
        else:
            self._hub.received(self, message)

    def _challenge(self, hello: Hello) -> None:
        self._meeting = ServerHandshake(self._service, self._hub.secret_of)
        challenge = self._meeting.challenge(hello)
        if hello.client is not None:
            self.name += f" as client {hello.client}"
        self._write(challenge)

    def _check(self, request: Enrol) -> None:
        assert self._meeting is not None  # the state table allows Enrol only after Hello
        self._takes_parts = request.model == PARTS
        joined = self._meeting.joined(request, self.link)
        if self._meeting.is_renewed:
            self._hub.say(f"client {joined.client} has proven the new one of its two keys", "new keys")
        self._hub.enrol(self, replace(joined, declares=True))

    # The model.

    def _send_chunks(self) -> None:
        while not self._paused and (chunk := next(self._chunks, None)) is not None:
            self._write(chunk)
        if self.connection.state not in LOADING:
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                self.send(message)

    # Timeouts.

    def _watch_frame(self) -> None:
        self._forget_timer()
        if self.connection.mid_frame:
            self._expect(
                self._service.patience.frame_s + self.connection.cap / SLOWEST, "a frame that the device began"
            )

    def _expect(self, seconds: float, what: str) -> None:
        self._timer = self._loop.call_later(seconds, self._too_slow, seconds, what)

    def _too_slow(self, seconds: float, what: str) -> None:
        self.drop(f"{what} is not complete after {seconds:g} s")  # not Refused, after which a device does not come back

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _watch_silence(sock: socket.socket | None, seconds: float) -> None:
    """Let the kernel notice a peer that vanished, idle or not."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))

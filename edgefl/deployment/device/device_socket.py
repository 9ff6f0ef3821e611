"""The socket of a device. It connects, moves bytes between the server and device_protocol.py, and connects again when
the connection breaks.

The sockets are plain and blocking, with or without TLS, and there are no threads. device_protocol.py gives messages
their meaning, wire/connection.py decides what may be said when, and reconnection.py when to try again.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from edgefl.deployment.device.attendance import SentAwayError
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_protocol import SpoiltError
from edgefl.deployment.device.reconnection import Attempts
from edgefl.errors import DamagedFrameError, EdgeflError, RequestError, RunError
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.handshake import NONCE_BYTES
from edgefl.protocol.wire.messages import Hello, Message, Verdict, Welcome
from edgefl.system.log_lines import LogLine

CONNECT_S = 10.0  # seconds for TCP and TLS
HANDSHAKE_S = 30.0  # seconds for each of the server's answers up to Welcome
KEEPALIVE = {  # options of TCP: seconds of silence before the kernel asks for the server, seconds between questions,
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,  # number of unanswered questions after which the connection counts as broken
}
GOLDEN = 0.618034  # multiples of it, modulo 1, are spread evenly
LOADING = ("welcomed", "loading")  # states of a connection while the device lacks the model
RECEIVED_BYTES = 1 << 16  # bytes that are received at once
LOOK_EVERY_S = 1.0  # seconds between looks whether to leave, while the server asks for nothing
QUIET_S = 1800.0  # seconds of silence after which a welcome device connects anew. Some devices wait up to twice as long


class ServerAddress(NamedTuple):
    """The address of a server: host and port."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> ServerAddress:
        """Parse HOST:PORT or [IPV6]:PORT. Raises RequestError for another text."""
        _, is_url, place = text.partition("://")
        if is_url:
            raise RequestError(f"server {text!r} is a URL; expected HOST:PORT, as {place.strip('/')}")
        host, _, port = text.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise RequestError(f"server {text!r}; expected HOST:PORT")
        return ServerAddress(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_loopback(self) -> bool:
        """True if a connection to the address does not leave this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Party(Protocol):
    """The party that talks to a server: a Device, or a RunInquiry.

    finished      why the party has finished, or None
    is_waiting    whether the party expects an answer
    frozen_bytes  bytes of the run's model that are frozen parameters, as far as the party knows
    """

    @property
    def finished(self) -> str | None: ...

    @property
    def client(self) -> int | None: ...

    @property
    def is_waiting(self) -> bool: ...

    @property
    def frozen_bytes(self) -> int: ...

    def hello(self, nonce: bytes) -> Hello: ...

    def handle(self, message: Message) -> Iterator[Message]: ...


class LeftError(RunError):
    """The reason why the device leaves its server for a while. A Party raises it, or `look` of DeviceSocket does."""


class DeviceSocket:
    """A device's connections to one server, one after another.

    device         party that talks to the server
    context        for TLS, or None
    random_bytes   returns the number of random bytes that its argument says
    world          functions through which the device reaches its user and clocks
    give_up_s      seconds without progress after which it no longer tries, as for Attempts
    look           is called every `look_every_s` seconds while a welcome device waits, and may raise LeftError
    """

    def __init__(
        self,
        server: ServerAddress,
        device: Party,
        context: ssl.SSLContext | None,
        random_bytes: Callable[[int], bytes],
        world: DeviceEnvironment,
        give_up_s: float = math.inf,
        look: Callable[[], None] | None = None,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._server, self._device, self._context = server, device, context
        self._random_bytes, self._world = random_bytes, world
        self._look, self._look_every_s = look, look_every_s
        self._attempts = Attempts(str(server), world, give_up_s)
        self._log = world.limited_log()

    def run(self) -> str:
        """Take part until the server says why the run is over, and return its words.

        Raises  EdgeflError when another attempt would not help: the server refuses, is not the expected server, or
                breaks the protocol in an undamaged frame. EdgeflError also when the server has been away for
                `give_up_s`. Until then a connection that cannot be made, breaks, or brings damaged bytes is tried
                again. LeftError if the device leaves. The server only sees the connection end. SentAwayError if the
                server has no work for a device with `look`, which has other servers. Other devices wait.
        """
        while True:
            self._attempts.begins()
            try:
                return self._connection()
            except SentAwayError as error:
                if self._look is not None:
                    raise
                self._attempts.sent_away(error)
            except (OSError, SpoiltError, DamagedFrameError) as error:
                self._attempts.failed(error)

    def _connection(self) -> str:
        """Keep one connection to the end of the run. Raises OSError if it breaks before."""
        connection, self._is_welcome = Connection("device", frozen_bytes=self._device.frozen_bytes), False
        with self._connect() as link:
            link.settimeout(self._attempts.wait_s(HANDSHAKE_S))
            link.sendall(connection.send(self._device.hello(self._random_bytes(NONCE_BYTES))))
            try:
                while self._device.finished is None or self._device.is_waiting:
                    data = self._received(link, connection)
                    if not data:
                        self._closed(connection)
                        break
                    self._answer(link, connection, data)
            except (LeftError, SentAwayError, SpoiltError, DamagedFrameError):
                raise  # a refusal would be final, and the device comes back
            except EdgeflError as error:
                _refuse(link, connection, str(error))
                raise
        assert self._device.finished is not None
        return self._device.finished

    def _answer(self, link: socket.socket, connection: Connection, data: bytes) -> None:
        was_loading = connection.state == "loading"
        for message in connection.receive(data):
            was_waiting = self._device.is_waiting
            for answer in self._device.handle(message):
                if connection.state != "closed":  # a later message of the same bytes may close it
                    link.sendall(connection.send(answer))
            if isinstance(message, Welcome):
                self._welcomed(link)
            elif isinstance(message, Verdict) and was_waiting and not self._device.is_waiting:
                self._attempts.progressed()
        if was_loading and connection.state != "loading":  # the device has the whole model, undamaged
            self._attempts.progressed()

    def _welcomed(self, link: socket.socket) -> None:
        link.settimeout(None)  # a round has no limit here, and the kernel's questions find a dead server
        self._is_welcome = True
        if self._attempts.welcomed():
            client = self._device.client
            who = () if client is None else (client,)
            self._log.say(LogLine(f"{self._server}: connected as client {client}", "connect", *who), "connections")

    def _received(self, link: socket.socket, connection: Connection) -> bytes:
        """Return the next bytes, and call `look` in the meantime. The end of a wait does not lose bytes."""
        if not self._is_welcome:
            link.settimeout(self._attempts.next_wait_s(HANDSHAKE_S))
            return _received(link, connection)
        if connection.state in LOADING:  # a download has a limit, unlike a round
            return self._heard(link, connection, self._attempts.patience_s, None)
        return self._heard(link, connection, None, self._look)

    def _heard(
        self, link: socket.socket, connection: Connection, longest_s: float | None, look: Callable[[], None] | None
    ) -> bytes:
        """Return the next bytes for a welcome device, and call `look` in the meantime.

        Raises  TimeoutError after `longest_s` seconds of silence, or after QUIET_S to 2 QUIET_S without that limit. The
                silence can be a fault: if damage makes the length of a TLS record greater, OpenSSL waits for bytes that
                nobody sends, while the kernels find the connection alive
        """
        clock, number = self._world.clock, self._device.client or 0
        spread = 1.0 + number * GOLDEN % 1.0  # not all devices connect anew at the same time
        quiet_s = QUIET_S * spread if longest_s is None else longest_s
        until = clock() + quiet_s
        while True:
            link.settimeout(quiet_s if look is None else self._look_every_s)
            try:
                return _received(link, connection)
            except TimeoutError as error:
                if error.errno is not None:  # the kernel has given up the connection
                    raise
                if look is not None:
                    look()
                if look is None or clock() >= until:
                    raise TimeoutError(f"the server has said nothing for {quiet_s:.0f} s") from None
            finally:
                link.settimeout(None)

    def _closed(self, connection: Connection) -> None:
        """Raise ConnectionError after the server has closed the connection, unless the run is over."""
        if self._device.finished is not None:
            return
        if not connection.received_bytes:  # asyncio's servers close without telling why TLS failed
            wanted = "--tls" if self._context is None else "--tls-cert signed by its authority if it asks for one"
            raise ConnectionError(f"the server closed the connection without a message; with TLS it expects {wanted}")
        where = " in the middle of a message" if connection.mid_frame else ""
        raise ConnectionError(f"the server closed the connection{where}")

    def _connect(self) -> socket.socket:
        link = socket.create_connection(self._server, self._attempts.wait_s(CONNECT_S))
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                if hasattr(socket, name):  # not every system has them
                    link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            return self._context.wrap_socket(link, server_hostname=self._server.host) if self._context else link
        except BaseException:
            link.close()
            raise


def _received(link: socket.socket, connection: Connection) -> bytes:
    """Return the next bytes, or b"" if the server has closed the connection, be it by a reset before its first byte."""
    try:
        return link.recv(RECEIVED_BYTES)
    except ConnectionResetError:
        if connection.received_bytes:
            raise
        return b""


def _refuse(link: socket.socket, connection: Connection, reason: str) -> None:
    """Tell the server why the device closes the connection, if the server still listens."""
    try:
        link.settimeout(CONNECT_S)
        link.sendall(connection.refuse(reason))
    except OSError:
        pass  # the reason is in the output of this side, too

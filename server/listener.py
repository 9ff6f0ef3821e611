"""The listening sockets of the server, with a Peer for each connection and TLS around it. admission.py decides which
connection is let in, and which connection has to go for it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from edgefl.server.admission import Admission, Caps
from edgefl.server.peer import Peer
from edgefl.server.tls_transport import TlsTransport

AT_ONCE = 16  # connections that are let in before other work
PAUSE_S = 1.0  # seconds of a pause after accept has failed
MOST_LEAVING = 16  # strangers that were turned out, and hold a file of file_descriptors.RESERVE until they are gone
LEAVING_S = 0.02  # seconds before a look whether they are gone
QUEUED_S = 4.0  # seconds for which a crowd may wait in the kernel's queue. A device gives up after 10 s
LONGEST_QUEUE = 4096


@dataclass(frozen=True)
class ListenAddress:
    """The address at which a server listens. Port 0 stands for any free port.

    tls      context for TLS, or None
    caps     largest numbers of connections that have not shown who they are
    sockets  sockets that listen there already, see `bound`
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    caps: Caps = field(default_factory=Caps)
    sockets: tuple[socket.socket, ...] = ()


class Owner(Protocol):
    """The protocol of the listener's owner, which is in server/event_loop.py."""

    def arrived(self, name: str) -> Peer: ...

    def say(self, line: str, kind: str) -> None: ...

    @property
    def handshake_s(self) -> float: ...


class Entrance:
    """The listening sockets of a server, open until `close`. Use it inside the event loop.

    caps, room  limits, as for Admission
    Raises      OSError if it cannot listen there.
    """

    def __init__(self, owner: Owner, address: ListenAddress, caps: Caps, room: int) -> None:
        self._owner, self._context = owner, address.tls
        self._loop = asyncio.get_running_loop()
        self._admission = Admission(caps, room, self._loop.time())
        self._strangers: dict[int, socket.socket] = {}
        self._leaving: dict[int, float] = {}  # when strangers were turned out that are not gone yet
        self._tasks: set[asyncio.Task[object]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        queue = min(LONGEST_QUEUE, max(AT_ONCE, int(caps.rate * QUEUED_S)))
        self._listeners = list(address.sockets) or _listen(address, queue)
        for listener in self._listeners:
            listener.listen(queue)
            self._loop.add_reader(listener, self._accept, listener)

    @property
    def name(self) -> tuple[str, int]:
        """The host and port of the first socket."""
        host, port = self._listeners[0].getsockname()[:2]
        return host, port

    def know(self, link: int) -> None:
        """Note that the connection is that of an enrolled device."""
        self._admission.know(link)
        self._strangers.pop(link, None)

    def leave(self, link: int) -> None:
        """Note that the connection is gone."""
        self._admission.leave(link)
        self._leaving.pop(link, None)
        self._strangers.pop(link, None)

    def close(self) -> None:
        """Stop listening, and close the connections of strangers."""
        for pause in self._pauses.values():
            pause.cancel()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        for link in list(self._strangers):
            self._turn_out(link)

    def _accept(self, listener: socket.socket) -> None:
        """Let in as many waiting connections as may come now."""
        for _ in range(AT_ONCE):
            wait_s = self._admission.wait_s(self._loop.time())
            if wait_s > 0:
                self._owner.say("more connections than devices need: new connections have to wait", "crowd")
                self._pause(listener, wait_s)
                return
            if self._are_leaving():
                self._pause(listener, LEAVING_S)
                return
            try:
                link, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._owner.say(f"cannot accept connections: {error.strerror}; trying again", "accept")
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause(listener, PAUSE_S)
                return
            self._let_in(link, *address[:2])

    def _are_leaving(self) -> bool:
        """Return whether so many strangers have left within a second that there may be no file for newcomers."""
        if len(self._leaving) < MOST_LEAVING:
            return False
        since = self._loop.time() - PAUSE_S
        self._leaving = {link: at for link, at in self._leaving.items() if at > since}
        return len(self._leaving) >= MOST_LEAVING

    def _pause(self, listener: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listener)
        self._pauses[listener] = self._loop.call_later(seconds, self._go_on, listener)

    def _go_on(self, listener: socket.socket) -> None:
        del self._pauses[listener]
        self._loop.add_reader(listener, self._accept, listener)
        self._accept(listener)

    def _let_in(self, link: socket.socket, host: str, port: int) -> None:
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so for its own listeners only
        name = f"{host}:{port}"
        peer = self._owner.arrived(name)
        goes = self._admission.arrive(peer.link, host)
        if goes is not None:
            self._owner.say(f"closed a connection that had not enrolled, to make room for {name}", "crowded out")
            self._turn_out(goes)
        self._strangers[peer.link] = link
        task = self._loop.create_task(self._loop.connect_accepted_socket(lambda: self._protocol(peer, name), link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _protocol(self, peer: Peer, name: str) -> asyncio.Protocol:
        if self._context is None:
            return peer

        def failed(why: str) -> None:
            self._owner.say(f"refused {name}: no TLS ({why})", "no TLS")

        return TlsTransport(self._context, peer, self._owner.handshake_s, failed)

    def _turn_out(self, link: int) -> None:
        """End a stranger's connection. Its Peer hears of it as if the stranger had left."""
        self._leaving[link] = self._loop.time()
        with suppress(OSError):
            self._strangers[link].shutdown(socket.SHUT_RDWR)


def bound(address: ListenAddress) -> ListenAddress:
    """Return the address with sockets that listen there, for an Entrance, which closes them.

    Until the Entrance is made, connections wait in the kernel's queue. Raises OSError if it cannot listen there.
    """
    return replace(address, sockets=tuple(_listen(address, AT_ONCE)))


def inherited(address: ListenAddress, descriptor: int) -> ListenAddress:
    """Return the address with the socket that another process has bound there and passed on as this descriptor."""
    return replace(address, sockets=(socket.socket(fileno=descriptor),))


def _listen(address: ListenAddress, queue: int) -> list[socket.socket]:
    """Return a socket for each address that the name stands for."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(f"host {address.host}: {error.strerror}; expected an address of this machine") from None
    listeners: list[socket.socket] = []
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            listeners.append(socket.create_server(where, family=family, backlog=queue))
            listeners[-1].setblocking(False)
    except OSError as error:
        for listener in listeners:
            listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise OSError(f"host {address.host} is another machine's; expected an address of this machine") from None
        raise
    return listeners

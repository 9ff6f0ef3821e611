"""A TCP relay between devices and a server that counts every byte at the socket and reads the frames in it.

One thread, loopback, plain TCP. What it knows of the protocol is wire/frames.py and the types of messages; what a
Connection counts has no part in it.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from edgefl.wire import frames, messages
from edgefl.wire.messages import Message

CHUNK_BYTES = 1 << 16
ANY_FRAME = frames.LARGEST


class Frame(NamedTuple):
    """A frame that went through: its bytes, header included."""

    message: Message
    size: int


@dataclass
class Count:
    """One direction, all connections together: bytes at the socket, and the frames they hold."""

    bytes: int = 0
    frames: list[Frame] = field(default_factory=list)


@dataclass
class Relay:
    """Listens at `address`. `down` is from the server to the devices."""

    address: str
    up: Count = field(default_factory=Count)
    down: Count = field(default_factory=Count)


@contextmanager
def relay(server: str) -> Iterator[Relay]:
    """Passes on every connection made to it, for the length of the with block."""
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        wake, sleeper = socket.socketpair()
        running = Relay("{}:{}".format(*listener.getsockname()))
        selector.register(listener, selectors.EVENT_READ, lambda: _accept(listener, server, selector, running))
        selector.register(sleeper, selectors.EVENT_READ, None)
        thread = threading.Thread(target=_run, args=(selector,))
        thread.start()
        try:
            yield running
        finally:
            wake.send(b"x")
            thread.join()
            for each in (wake, *(key.fileobj for key in selector.get_map().values())):
                each.close()  # type: ignore[union-attr]


def _run(selector: selectors.BaseSelector) -> None:
    while True:
        for key, _ in selector.select():
            if key.data is None:
                return
            key.data()


def _accept(listener: socket.socket, server: str, selector: selectors.BaseSelector, running: Relay) -> None:
    device, _ = listener.accept()
    host, port = server.rsplit(":", 1)
    link = socket.create_connection((host, int(port)))
    for source, target, count in ((device, link, running.up), (link, device, running.down)):
        selector.register(source, selectors.EVENT_READ, _passing(source, target, count, selector))


def _passing(
    source: socket.socket, target: socket.socket, count: Count, selector: selectors.BaseSelector
) -> Callable[[], None]:
    """Moves what `source` has to `target`."""
    decoder = frames.Decoder(ANY_FRAME)

    def move() -> None:
        try:
            data = source.recv(CHUNK_BYTES)
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            selector.unregister(source)
            _end(target)
            return
        count.bytes += len(data)
        for number, body in decoder.receive(data):
            count.frames.append(Frame(messages.decode(number, body), frames.HEADER.size + len(body)))

    return move


def _end(target: socket.socket) -> None:
    """Tells the other side that nothing more will come."""
    with suppress(OSError):  # it is gone already
        target.shutdown(socket.SHUT_WR)

"""A TCP relay on loopback, in one thread. It passes on every connection, each direction's bytes through a function.

It knows nothing of the protocol: bench/relay.py counts with it, tests/faults/bad_link.py flips bits.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

CHUNK_BYTES = 1 << 16

Through = Callable[[bytes], bytes]  # from the bytes that came to the bytes that go on


class Ways(NamedTuple):
    """The functions that a connection's bytes go through: `up` to the server, and `down`."""

    up: Through
    down: Through


@contextmanager
def passing(server: str, connected: Callable[[], Ways]) -> Iterator[str]:
    """Yield the address to connect to, for the length of the with block.

    `connected` is called for each new connection.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        wake, sleeper = socket.socketpair()
        selector.register(listener, selectors.EVENT_READ, lambda: _accept(listener, server, selector, connected))
        selector.register(sleeper, selectors.EVENT_READ, None)
        thread = threading.Thread(target=_run, args=(selector,))
        thread.start()
        try:
            yield "{}:{}".format(*listener.getsockname())
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


def _accept(
    listener: socket.socket, server: str, selector: selectors.BaseSelector, connected: Callable[[], Ways]
) -> None:
    device, _ = listener.accept()
    host, port = server.rsplit(":", 1)
    try:
        link = socket.create_connection((host, int(port)))
    except OSError:
        device.close()  # the server is away
        return
    ways, open_ends = connected(), [2]
    for source, target, through in ((device, link, ways.up), (link, device, ways.down)):
        selector.register(source, selectors.EVENT_READ, _moving(source, target, through, selector, open_ends))


def _moving(
    source: socket.socket,
    target: socket.socket,
    through: Through,
    selector: selectors.BaseSelector,
    open_ends: list[int],
) -> Callable[[], None]:
    """Return a function that moves what `source` has to `target`."""

    def move() -> None:
        try:
            data = source.recv(CHUNK_BYTES)
            target.sendall(through(data))
        except OSError:
            data = b""
        if not data:
            selector.unregister(source)
            _end(source, target, open_ends)

    return move


def _end(source: socket.socket, target: socket.socket, open_ends: list[int]) -> None:
    """Tell the other side that nothing more will come. Close both sides once neither has more."""
    open_ends[0] -= 1
    with suppress(OSError):  # the target is gone already
        target.shutdown(socket.SHUT_WR)
    if not open_ends[0]:
        source.close()
        target.close()

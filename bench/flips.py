"""A TCP relay that flips single bits of what goes through it, at most one in a connection: what a bad line does.

One thread, loopback. It knows nothing of the protocol. Not bench/relay.py, which reads the frames.
"""

from __future__ import annotations

import random
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

CHUNK_BYTES = 1 << 16
SHORT, LONG = 600, 30_000  # bytes within which a flip lies: in the handshake, or further on

Direction = Literal["up", "down"]


class Flip(NamedTuple):
    """One bit that was flipped: in which direction, at which byte of its stream, counted from 0."""

    direction: Direction
    at: int
    bit: int


@dataclass
class BadLine:
    """Listens at `address`. `flips`: those that happened, of at most `budget`."""

    address: str
    budget: int
    chance: random.Random
    within: Sequence[int]
    flips: list[Flip] = field(default_factory=list)

    def next(self) -> Flip | None:
        """What shall happen to a new connection, should it carry so many bytes."""
        if len(self.flips) >= self.budget:
            return None
        within = self.chance.choice(self.within)
        direction: Direction = self.chance.choice(["up", "down"])
        return Flip(direction, self.chance.randrange(within), self.chance.randrange(8))


@contextmanager
def bad_line(server: str, budget: int, seed: int, within: Sequence[int] = (SHORT, LONG)) -> Iterator[BadLine]:
    """Passes on every connection made to it, with its flip, for the length of the with block.

    within  bytes of a connection's direction, one of which is drawn, and the flip's place below it
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        wake, sleeper = socket.socketpair()
        line = BadLine("{}:{}".format(*listener.getsockname()), budget, random.Random(seed), within)
        selector.register(listener, selectors.EVENT_READ, lambda: _accept(listener, server, selector, line))
        selector.register(sleeper, selectors.EVENT_READ, None)
        thread = threading.Thread(target=_run, args=(selector,))
        thread.start()
        try:
            yield line
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


def _accept(listener: socket.socket, server: str, selector: selectors.BaseSelector, line: BadLine) -> None:
    device, _ = listener.accept()
    host, port = server.rsplit(":", 1)
    try:
        link = socket.create_connection((host, int(port)))
    except OSError:
        device.close()  # the server is away
        return
    flip = line.next()
    open_ends = [2]
    ways: list[tuple[Direction, socket.socket, socket.socket]] = [("up", device, link), ("down", link, device)]
    for direction, source, target in ways:
        mine = flip if flip is not None and flip.direction == direction else None
        way = _passing(source, target, mine, line, selector, open_ends)
        selector.register(source, selectors.EVENT_READ, way)


def _passing(
    source: socket.socket,
    target: socket.socket,
    flip: Flip | None,
    line: BadLine,
    selector: selectors.BaseSelector,
    open_ends: list[int],
) -> Callable[[], None]:
    """Moves what `source` has to `target`, with this bit flipped."""
    passed = 0

    def move() -> None:
        nonlocal passed
        try:
            data = source.recv(CHUNK_BYTES)
            if flip is not None and passed <= flip.at < passed + len(data):
                data = _flipped(data, flip.at - passed, flip.bit)
                line.flips.append(flip)
            passed += len(data)
            target.sendall(data)
        except OSError:
            data = b""
        if not data:
            selector.unregister(source)
            _end(source, target, open_ends)

    return move


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def _end(source: socket.socket, target: socket.socket, open_ends: list[int]) -> None:
    """Tells the other side that nothing more will come; closes both once neither has more."""
    open_ends[0] -= 1
    with suppress(OSError):  # it is gone already
        target.shutdown(socket.SHUT_WR)
    if not open_ends[0]:
        source.close()
        target.close()

"""A relay between devices and a server that counts every byte at the socket and reads the frames in it.

It knows wire/frames.py and the types of messages of the protocol. It does not use what a Connection counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.passing import Through, Ways, passing
from edgefl.protocol.wire import frames, messages
from edgefl.protocol.wire.messages import Message

ANY_FRAME = frames.LARGEST


class Frame(NamedTuple):
    """A frame that went through, with its bytes, header included."""

    message: Message
    size: int


@dataclass
class Count:
    """One direction of all connections together: bytes at the socket, and the frames they hold."""

    bytes: int = 0
    frames: list[Frame] = field(default_factory=list)


@dataclass
class Relay:
    """A relay that listens at `address`. `down` is from the server to the devices."""

    address: str
    up: Count = field(default_factory=Count)
    down: Count = field(default_factory=Count)


@contextmanager
def relay(server: str) -> Iterator[Relay]:
    """Pass on every connection made to it, for the length of the with block."""
    running = Relay("")
    with passing(server, lambda: Ways(_counting(running.up), _counting(running.down))) as running.address:
        yield running


def _counting(count: Count) -> Through:
    """Return a function that counts one direction of a new connection."""
    decoder = frames.Decoder(ANY_FRAME)

    def through(data: bytes) -> bytes:
        count.bytes += len(data)
        for number, body in decoder.receive(data):
            count.frames.append(Frame(messages.decode(number, body), frames.HEADER.size + len(body)))
        return data

    return through

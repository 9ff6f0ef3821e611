"""A relay between one device and the server that reads every frame, and that can stop the device at one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.passing import Through, Ways, passing
from edgefl.protocol.wire import frames, messages
from edgefl.protocol.wire.connection import payload_bytes
from edgefl.protocol.wire.messages import Message


@dataclass
class CountedWire:
    """The messages that have gone through the relay, over all connections of the device.

    address  where the device connects to
    up       messages of the device
    down     messages of the server
    strike   function that is called with each message of the device before the server gets it. If it returns True, the
             server does not get the message
    """

    address: str = ""
    up: list[Message] = field(default_factory=list)
    down: list[Message] = field(default_factory=list)
    strike: Callable[[Message], bool] = lambda message: False

    def payloads(self, kind: type[Message]) -> list[int]:
        """Return the payload bytes of each message of this type."""
        return [payload_bytes(message) for message in (*self.up, *self.down) if isinstance(message, kind)]


@contextmanager
def counted_wire(server: str) -> Iterator[CountedWire]:
    """Pass on every connection that is made to the wire's address, for the length of the with block."""
    wire = CountedWire()
    with passing(server, lambda: Ways(_reading(wire.up, wire), _reading(wire.down, None))) as wire.address:
        yield wire


def _reading(found: list[Message], struck: CountedWire | None) -> Through:
    """Return a function that reads one direction of a new connection."""
    decoder = frames.Decoder(frames.LARGEST)

    def through(data: bytes) -> bytes:
        read = [messages.decode(number, body) for number, body in decoder.receive(data)]
        found.extend(read)
        return b"" if struck is not None and any(struck.strike(message) for message in read) else data

    return through

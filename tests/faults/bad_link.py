"""A relay that flips single bits of what goes through it, at most one in a connection, as a bad line does.

It knows nothing of the protocol. bench/relay.py reads the frames.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from bench.passing import Through, Ways, passing

SHORT, LONG = 600, 30_000  # number of first bytes in which a flip lies: in the handshake, or further on

Direction = Literal["up", "down"]


class Flip(NamedTuple):
    """One bit that was flipped: its direction, and its byte in the stream, counted from 0."""

    direction: Direction
    at: int
    bit: int


@dataclass
class BadLine:
    """A relay that listens at `address`. `flips` are the flips that happened, of at most `budget`."""

    address: str
    budget: int
    random_stream: random.Random
    within: Sequence[int]
    flips: list[Flip] = field(default_factory=list)

    def next(self) -> Flip | None:
        """Return the flip of a new connection, which happens if the connection carries so many bytes. Return None
        without one.
        """
        if len(self.flips) >= self.budget:
            return None
        within = self.random_stream.choice(self.within)
        direction: Direction = self.random_stream.choice(["up", "down"])
        return Flip(direction, self.random_stream.randrange(within), self.random_stream.randrange(8))


@contextmanager
def bad_link(server: str, budget: int, seed: int, within: Sequence[int] = (SHORT, LONG)) -> Iterator[BadLine]:
    """Pass on every connection made to it, with its flip, for the length of the with block.

    within  numbers of first bytes of a direction, of which one is drawn, and then the flip's position below it
    """
    link = BadLine("", budget, random.Random(seed), within)
    with passing(server, lambda: _ways(link)) as link.address:
        yield link


def _ways(link: BadLine) -> Ways:
    """Return the two directions of a new connection, of which at most one flips a bit."""
    flip = link.next()
    up, down = (flip if flip is not None and flip.direction == each else None for each in get_args(Direction))
    return Ways(_flipping(up, link), _flipping(down, link))


def _flipping(flip: Flip | None, link: BadLine) -> Through:
    """Return one direction, with this bit flipped."""
    passed = 0

    def through(data: bytes) -> bytes:
        nonlocal passed
        start, passed = passed, passed + len(data)
        if flip is None or not start <= flip.at < passed:
            return data
        link.flips.append(flip)
        return _flipped(data, flip.at - start, flip.bit)

    return through


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]

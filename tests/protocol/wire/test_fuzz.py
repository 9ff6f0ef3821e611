"""Mutated conversations, with a fixed seed: nothing but ProtocolError comes out, nothing false gets in, and little is
kept.

The frames of a real conversation are damaged in two ways. `damage` works on the bytes of the stream, as a broken or
hostile network would: checksums and sequence numbers must find it. `rewrite` changes messages and frames them anew with
right checksums and sequence numbers, as a hostile peer would: msgspec and the state table must find it.
"""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable
from typing import Any
from zlib import crc32

import msgspec
import pytest

from edgefl.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from edgefl.protocol.wire import frames
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import NUMBERS, Message, Trained, encode
from edgefl.protocol.wire.model_message import frame_cap

from .conversation import CONVERSATION, MODEL, pair_in, streams

STREAMS = streams()
PEER: dict[Role, Role] = {"device": "server", "server": "device"}
CAP = frame_cap(len(MODEL))
SLACK = 1 << 15  # the Connection itself, messages and errors in flight

Frames = list[bytes]
ODD = [None, True, -1, 0, 2**31, 2**53, 2**64 - 1, 1.5, float("nan"), "", "x" * 70, b"", bytes(33), [], {}]


def flip(frames_: Frames, random_stream: random.Random) -> Frames:
    at, data = picked(frames_, random_stream)
    bit = random_stream.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    return [*frames_[:at], bytes(data), *frames_[at + 1 :]]


def cut(frames_: Frames, random_stream: random.Random) -> Frames:
    at, data = picked(frames_, random_stream)
    start = random_stream.randrange(len(data))
    del data[start : start + random_stream.randint(1, 40)]
    return [*frames_[:at], bytes(data), *frames_[at + 1 :]]


def insert(frames_: Frames, random_stream: random.Random) -> Frames:
    at, data = picked(frames_, random_stream)
    start = random_stream.randrange(len(data))
    data[start:start] = random_stream.randbytes(random_stream.randint(1, 40))
    return [*frames_[:at], bytes(data), *frames_[at + 1 :]]


def repeat(frames_: Frames, random_stream: random.Random) -> Frames:
    at = random_stream.randrange(len(frames_))
    return [*frames_[: at + 1], *frames_[at:]]


def swap(frames_: Frames, random_stream: random.Random) -> Frames:
    at, to = sorted(random_stream.sample(range(len(frames_)), 2))
    changed = list(frames_)
    changed[at], changed[to] = changed[to], changed[at]
    return changed


def drop(frames_: Frames, random_stream: random.Random) -> Frames:
    at = random_stream.randrange(len(frames_) - 1)  # not the last: nothing would follow that shows the gap
    return [*frames_[:at], *frames_[at + 1 :]]


def picked(frames_: Frames, random_stream: random.Random) -> tuple[int, bytearray]:
    at = random_stream.randrange(len(frames_))
    return at, bytearray(frames_[at])


DAMAGE: list[Callable[[Frames, random.Random], Frames]] = [flip, cut, insert, repeat, swap, drop]


def converse(
    victim: Role, incoming: list[tuple[int, bytes]], random_stream: random.Random
) -> tuple[list[Message], str]:
    """Return what a side receives that keeps to its own part of the conversation, and how it ended.

    incoming  (the step it belongs to, bytes); the bytes of a step are fed in random pieces

    The end is "refused", "cut off" (within a frame) or "whole". Any error but ProtocolError is raised.
    """
    connection, received = Connection(victim), []
    try:
        for step, (sender, message) in enumerate(CONVERSATION):
            if sender == victim:
                try:
                    connection.send(message)
                except LocalProtocolError:  # the peer has led us elsewhere
                    break
            else:
                for data in (data for at, data in incoming if at == step):
                    size = random_stream.choice([1, 7, 64, 4096])
                    for start in range(0, len(data), size):
                        received += connection.receive(data[start : start + size])
    except RemoteProtocolError as error:
        assert connection.receive(b"ignored") == []
        assert len(connection.refuse(str(error))) > frames.HEADER.size
        return received, "refused"
    return received, "cut off" if connection.mid_frame else "whole"


def steps_of(sender: Role) -> list[int]:
    return [step for step, (who, _) in enumerate(CONVERSATION) if who == sender]


def at_steps(sender: Role, frames_: Frames) -> list[tuple[int, bytes]]:
    """Return each frame at the step where the conversation has a frame of this sender. Extra frames are at the last
    step.
    """
    steps = steps_of(sender)
    return [(steps[min(at, len(steps) - 1)], frame) for at, frame in enumerate(frames_)]


@pytest.mark.parametrize("victim", ["device", "server"])
@pytest.mark.parametrize("mutate", DAMAGE, ids=lambda mutate: mutate.__name__)
def test_damaged_stream_is_refused_and_nothing_false_gets_in(mutate: Callable[..., Frames], victim: Role) -> None:
    random_stream, sender = random.Random(20), PEER[victim]
    original = [message for who, message in CONVERSATION if who == sender]
    for _ in range(150):
        changed = mutate(STREAMS[sender], random_stream)
        received, end = converse(victim, at_steps(sender, changed), random_stream)
        assert received == original[: len(received)]
        if b"".join(changed) != b"".join(STREAMS[sender]):
            assert end in ("refused", "cut off") or len(received) < len(original) or mutate is repeat


def test_untouched_stream_is_whole() -> None:
    for victim, sender in PEER.items():
        received, end = converse(victim, at_steps(sender, STREAMS[sender]), random.Random(1))
        assert (received, end) == ([message for who, message in CONVERSATION if who == sender], "whole")


def odd_fields(message: Message, random_stream: random.Random) -> bytes:
    """The message with one field, at some depth, replaced by a value of any type."""
    values: Any = msgspec.msgpack.decode(encode(message))
    place, at = values, random_stream.randrange(len(values))
    while isinstance(place[at], list | dict) and place[at] and random_stream.random() < 0.7:
        place = place[at]
        at = random_stream.choice(list(place) if isinstance(place, dict) else range(len(place)))
    place[at] = random_stream.choice(ODD)
    return msgspec.msgpack.encode(values)


def odd_bytes(message: Message, random_stream: random.Random) -> bytes:
    """The message with a few of its first bytes replaced: tags and lengths of msgpack."""
    data, tags = bytearray(encode(message)), b"\x80\x8f\x9f\xc1\xc6\xdb\xdd\xdf\xff"
    for _ in range(random_stream.randint(1, 3)):
        data[random_stream.randrange(min(len(data), 60))] = random_stream.choice(tags)
    return bytes(data)


def rewrite(sender: Role, random_stream: random.Random, body: Callable[[Message, random.Random], bytes]) -> Frames:
    """The sender's frames, some of them of other messages or with odd bodies, framed as they should be."""
    said = [message for who, message in CONVERSATION if who == sender]
    frames_ = []
    for sequence, message in enumerate(said):
        kind, data = NUMBERS[type(message)], encode(message)
        if random_stream.random() < 0.3:
            data = body(message, random_stream)
        elif random_stream.random() < 0.1:
            kind = random_stream.randrange(256)
        elif random_stream.random() < 0.1:
            message = random_stream.choice(said)
            kind, data = NUMBERS[type(message)], encode(message)
        frames_.append(frames.encode(kind, sequence, data))
    return frames_


@pytest.mark.parametrize("victim", ["device", "server"])
@pytest.mark.parametrize("body", [odd_fields, odd_bytes])
def test_hostile_peer_gets_nothing_but_protocol_errors(victim: Role, body: Callable[..., bytes]) -> None:
    random_stream, ends = random.Random(21), []
    for _ in range(400):
        received, end = converse(
            victim, at_steps(PEER[victim], rewrite(PEER[victim], random_stream, body)), random_stream
        )
        for message in received:  # whatever passed is a message like any other
            assert type(message) in NUMBERS
            msgspec.msgpack.decode(encode(message), type=type(message))
        ends.append(end)
    assert ends.count("refused") > 200
    assert ends.count("whole") > 0  # odd values that are allowed


@pytest.mark.parametrize("victim", ["device", "server"])
def test_memory_stays_under_the_cap(victim: Role) -> None:
    """A side keeps at any time a frame's bytes and the eighth by which a bytearray grows, and at the peak a message,
    too.
    """
    random_stream, sender = random.Random(22), PEER[victim]
    tracemalloc.start()
    try:
        for _ in range(40):
            mutate = random_stream.choice(DAMAGE)
            incoming = at_steps(sender, mutate(rewrite(sender, random_stream, odd_bytes), random_stream))
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            converse(victim, incoming, random_stream)
            assert tracemalloc.get_traced_memory()[1] - before < 2 * CAP + SLACK
            assert tracemalloc.get_traced_memory()[0] - before < SLACK
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [CAP, CAP + 1, 2**32 - 1])
@pytest.mark.parametrize("size", [16, 1000, 30000])
def test_endless_frame_keeps_no_more_than_the_cap(length: int, size: int) -> None:
    server, piece = pair_in("ready").sides["server"], bytes(size)
    header = frames.HEADER.pack(b"EF", frames.VERSION, NUMBERS[Trained], 3, length, 0, 0)[frames.CHECKED]
    header += crc32(header).to_bytes(4, "little")  # that of the body is wrong, in the end
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(ProtocolError):
            for data in itertools.chain([header], itertools.repeat(piece, 2 * CAP // size)):
                server.receive(data)
                assert tracemalloc.get_traced_memory()[0] - before < CAP * 9 / 8 + 4096
    finally:
        tracemalloc.stop()

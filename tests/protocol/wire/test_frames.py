"""Frames: golden bytes, any split of a stream, and one named test per malformed frame."""

from __future__ import annotations

import re
import tracemalloc
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.errors import DamagedFrameError, LocalProtocolError, ProtocolError, RemoteProtocolError
from edgefl.protocol.wire.frames import HEADER, Decoder, encode

BODY = b"body"
CAP = 1 << 16
WRONG_BODY = r"frame whose body has checksum 0x\w{8}; expected 0x\w{8}, as the frame states"


def received(decoder: Decoder, data: bytes) -> list[tuple[int, bytes]]:
    return [(kind, bytes(body)) for kind, body in decoder.receive(data)]


def refusal(data: bytes, cap: int = CAP) -> str:
    """The text of the error that a fresh decoder raises."""
    with pytest.raises(RemoteProtocolError) as error:
        received(Decoder(cap), data)
    return str(error.value)


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def test_golden_bytes_of_a_frame() -> None:
    fields = b"EF\x02" + bytes.fromhex("07 02000000 04000000")  # type, sequence number, length
    header = fields + crc32(BODY).to_bytes(4, "little")
    checksum = crc32(header).to_bytes(4, "little")
    assert encode(7, 2, BODY) == header + checksum + BODY
    assert (header[12:] + checksum).hex() == "b20ba8db" + "ebc90068"


def test_the_header_is_20_bytes() -> None:
    assert HEADER.size == len(encode(1, 0, BODY)) - len(BODY) == 20


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(min_size=1, max_size=60)), max_size=6), st.data())
def test_any_split_of_the_bytes_gives_the_same_frames(bodies: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(kind, number, body) for number, (kind, body) in enumerate(bodies))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    decoder, found = Decoder(CAP), []
    for start, end in pairwise([0, *sorted(cuts), len(stream)]):
        found += received(decoder, stream[start:end])
    assert found == bodies
    assert not decoder.mid_frame


def test_bytes_one_at_a_time_give_the_same_frames() -> None:
    stream = encode(7, 0, BODY) + encode(8, 1, b"x")
    decoder = Decoder(CAP)
    counts = [len(received(decoder, stream[at : at + 1])) for at in range(len(stream))]
    assert [at + 1 for at, count in enumerate(counts) if count] == [24, 45]


def test_mid_frame_from_the_first_byte_to_the_last_but_one() -> None:
    decoder, frame = Decoder(CAP), encode(7, 0, BODY)
    inside = [decoder.mid_frame]
    for at in range(len(frame)):
        received(decoder, frame[at : at + 1])
        inside.append(decoder.mid_frame)
    assert inside == [False] + [True] * 23 + [False]


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_protocol_errors(data: bytes) -> None:
    try:
        found = received(Decoder(CAP), data)
    except ProtocolError:
        return
    assert found == []  # a frame by chance would need its checksum


def test_every_prefix_of_a_frame_gives_nothing() -> None:
    frame = encode(7, 0, BODY)
    assert all(received(Decoder(CAP), frame[:size]) == [] for size in range(len(frame)))


def test_every_flipped_bit_is_found() -> None:
    frame = encode(7, 0, BODY)
    for bit in range(8 * len(frame)):
        flipped = with_byte(frame, bit // 8, frame[bit // 8] ^ 1 << bit % 8)
        with pytest.raises(DamagedFrameError):
            received(Decoder(CAP), flipped)


def test_a_flipped_length_is_found_before_the_body_is_there() -> None:
    header = encode(7, 0, BODY)[: HEADER.size]
    for bit in range(64, 96):
        with pytest.raises(DamagedFrameError, match="frame whose header has checksum"):
            received(Decoder(CAP), with_byte(header, bit // 8, header[bit // 8] ^ 1 << bit % 8))


def test_wrong_magic_is_refused() -> None:
    assert refusal(b"GET / HTTP/1.1\r\nHost:") == "frame with magic b'GE'; expected b'EF'"


def test_wrong_version_is_refused() -> None:
    assert refusal(with_byte(encode(7, 0, BODY), 2, 1)) == "frame of version 1; expected 2"


def test_wrong_checksum_is_refused() -> None:
    assert re.fullmatch(WRONG_BODY, refusal(encode(7, 0, b"a")[:-1] + b"b"))


def test_checksum_covers_the_type() -> None:
    assert "checksum" in refusal(with_byte(encode(7, 0, BODY), 3, 8))


def test_frame_without_body_is_refused() -> None:
    header = HEADER.pack(b"EF", 2, 7, 0, 0, 0, 0)[:16]
    assert refusal(header + crc32(header).to_bytes(4, "little")) == "frame of 0 bytes; expected at least 1"


def test_frame_above_the_cap_is_refused_at_its_header() -> None:
    header = encode(7, 0, bytes(101))[: HEADER.size]
    assert refusal(header, cap=100) == "frame of 101 bytes; the limit is 100"
    assert received(Decoder(cap=101), header) == []


def test_replayed_frame_is_refused() -> None:
    frame = encode(7, 0, BODY)
    assert refusal(frame + frame) == "frame with sequence number 0; expected 1"


def test_lost_frame_is_noticed() -> None:
    assert refusal(encode(7, 1, BODY)) == "frame with sequence number 1; expected 0"


def test_frames_before_a_bad_one_come_out() -> None:
    stream = Decoder(CAP).receive(encode(7, 0, BODY) + b"x" * HEADER.size)
    assert next(stream) == (7, BODY)
    with pytest.raises(RemoteProtocolError):
        next(stream)


def test_a_cap_raised_between_two_frames_of_one_piece_counts() -> None:
    decoder = Decoder(cap=10)
    stream = decoder.receive(encode(7, 0, BODY) + encode(8, 1, bytes(20)))
    assert next(stream) == (7, BODY)
    decoder.cap = 20
    assert next(stream) == (8, bytes(20))


def test_a_claimed_length_allocates_nothing() -> None:
    header = encode(7, 0, bytes(1 << 20))[: HEADER.size]
    decoder = Decoder(cap=1 << 20)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        received(decoder, header + b"first")
        assert tracemalloc.get_traced_memory()[1] - before < 4096
    finally:
        tracemalloc.stop()


def test_a_frame_in_pieces_takes_its_size_and_an_eighth() -> None:
    size, piece = 1 << 20, bytes(1 << 10)
    decoder = Decoder(cap=size)
    received(decoder, encode(7, 0, bytes(size))[: HEADER.size])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(size // len(piece) - 1):
            received(decoder, piece)
            assert tracemalloc.get_traced_memory()[0] - before < size * 9 / 8 + 4096
    finally:
        tracemalloc.stop()


def test_empty_body_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError, match=r"frame of 0 bytes; expected 1 to 4294967295"):
        encode(7, 0, b"")


def test_sequence_numbers_do_not_wrap() -> None:
    assert encode(7, 2**32 - 1, BODY)[4:8] == b"\xff" * 4
    with pytest.raises(LocalProtocolError, match="frame 4294967296 of a connection"):
        encode(7, 2**32, BODY)

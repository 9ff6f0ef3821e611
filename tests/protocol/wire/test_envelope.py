"""Envelopes: what is written is read again. A damaged, too large or forbidden envelope is refused."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from edgefl.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from edgefl.protocol.wire import envelope as envelopes
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import Finished, Message, ModelPart, ModelParts, ModelRequest, PartialModelRequest

from .conversation import CHALLENGE, CHUNKS, ENROL, EVALUATE, EVALUATED, HELLO, RUN, TRAIN, TRAINED, VERDICT, WELCOME

LIMIT = 1 << 20
LISTED = ModelParts([ModelPart(0, len(CHUNKS[0].data), bytes(32))])  # the first chunk is a part
WRITTEN: list[tuple[Role, tuple[Message, ...]]] = [
    ("server", (CHALLENGE,)),
    ("device", (HELLO, ENROL)),
    ("server", (WELCOME, *CHUNKS, TRAIN)),
    ("device", (TRAINED,)),
    ("server", (VERDICT, EVALUATE)),
    ("device", (EVALUATED,)),
    ("server", (Finished("all rounds are done"),)),
    ("device", ()),
    ("server", (LISTED,)),
    ("device", (PartialModelRequest(0, b"\1"),)),
    ("server", (LISTED, WELCOME, *CHUNKS)),  # the device has no part
    ("device", (ModelRequest(0),)),
]


@pytest.mark.parametrize(("writer", "said"), WRITTEN)
def test_an_envelope_is_read_as_it_was_written(writer: Role, said: tuple[Message, ...]) -> None:
    data = envelopes.encode(writer, Envelope(RUN, said))
    assert envelopes.decode(writer, data, len(data)) == Envelope(RUN, said)


def test_its_purpose_is_what_it_asks_for() -> None:
    assert [Envelope(RUN, said).purpose for _, said in WRITTEN[:8:2]] == ["query", "train", "evaluate", "query"]


@pytest.mark.parametrize(("writer", "said"), WRITTEN)
def test_the_other_side_may_not_have_written_it(writer: Role, said: tuple[Message, ...]) -> None:
    other: Role = "device" if writer == "server" else "server"
    data = envelopes.encode(writer, Envelope(RUN, said))
    with pytest.raises(RemoteProtocolError, match=f"by side {envelopes.WRITERS.index(writer)}"):
        envelopes.decode(other, data, LIMIT)


def test_an_envelope_has_only_what_its_writer_may_say() -> None:
    for writer, message in (("server", TRAINED), ("device", TRAIN), ("device", CHUNKS[0])):
        with pytest.raises(LocalProtocolError, match=f"in an envelope from the {writer}"):
            envelopes.encode(writer, Envelope(RUN, (message,)))  # type: ignore[arg-type]
    data = bytearray(envelopes.encode("server", Envelope(RUN, (TRAIN,))))
    other = envelopes.encode("device", Envelope(RUN, (TRAINED,)))
    data[envelopes.HEADER.size + len(RUN) :] = other[envelopes.HEADER.size + len(RUN) :]
    head = envelopes.HEADER.pack(b"EL", 1, 0, len(RUN), 0, 1, len(data) - envelopes.HEADER.size - len(RUN), 0)
    checksum = envelopes.crc32(RUN.encode(), envelopes.crc32(head[envelopes.CHECKED]))
    data[: envelopes.HEADER.size] = head[envelopes.CHECKED] + checksum.to_bytes(4, "little")
    with pytest.raises(RemoteProtocolError, match="Trained in an envelope from the server"):
        envelopes.decode("server", bytes(data), LIMIT)


def test_the_model_is_whole_and_follows_its_welcome() -> None:
    for said in ((CHUNKS[0],), (WELCOME, *CHUNKS[1:]), (WELCOME, *CHUNKS, CHUNKS[0])):
        with pytest.raises(LocalProtocolError, match="ModelChunk with"):
            envelopes.encode("server", Envelope(RUN, said))


def test_the_model_leaves_out_parts_that_are_listed() -> None:
    said = (LISTED, WELCOME, *CHUNKS[1:])
    data = envelopes.encode("server", Envelope(RUN, said))
    assert envelopes.decode("server", data, LIMIT).messages == said
    with pytest.raises(LocalProtocolError, match="ModelChunk with offset"):
        envelopes.encode("server", Envelope(RUN, (ModelParts([ModelPart(1, 2, bytes(32))]), WELCOME, *CHUNKS[1:])))


def test_an_envelope_above_the_limit_is_not_looked_at() -> None:
    data = envelopes.encode("server", Envelope(RUN, (TRAIN,)))
    with pytest.raises(RemoteProtocolError, match=f"envelope of {len(data)} bytes; the limit is {len(data) - 1}"):
        envelopes.decode("server", data, len(data) - 1)


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    data = envelopes.encode("server", Envelope(RUN, (VERDICT, EVALUATE)))
    for bit in range(8 * len(data)):
        spoilt = bytearray(data)
        spoilt[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteProtocolError):
            envelopes.decode("server", bytes(spoilt), LIMIT)
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            envelopes.decode("server", data[:size], LIMIT)


def test_noise_gives_protocol_errors_and_takes_little_memory() -> None:
    random_stream = random.Random(5)
    tracemalloc.start()
    for _ in range(300):
        noise = bytearray(random_stream.randbytes(random_stream.randrange(200)))
        noise[:4] = b"EL\x01\x00"
        with pytest.raises(ProtocolError):
            envelopes.decode("server", bytes(noise), LIMIT)
    assert tracemalloc.get_traced_memory()[1] < 1 << 17
    tracemalloc.stop()

"""Messages as bytes: golden bytes, exact round trips, refused fields, and the memory that a message may take."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from edgefl.protocol.wire.messages import (
    LONGEST_TEXT,
    NUMBERS,
    TYPES,
    ComeAgain,
    DeviceNotice,
    Enrol,
    Finished,
    Hello,
    Message,
    ModelChunk,
    ThroughputReport,
    Train,
    Trained,
    Welcome,
    check,
    decode,
    encode,
)

from .conversation import EXAMPLES

BAD_BYTES = (msgspec.DecodeError, UnicodeDecodeError)


def fields(message: Message) -> list[Any]:
    """The message as the array that travels."""
    values: list[Any] = msgspec.msgpack.decode(encode(message))
    return values


def refusal(kind: type[Message], values: list[Any]) -> str:
    with pytest.raises(BAD_BYTES) as error:
        decode(NUMBERS[kind], msgspec.msgpack.encode(values))
    return str(error.value)


def test_golden_bytes_of_a_message() -> None:
    assert encode(Finished("done")) == b"\x91\xa4done"
    assert encode(Enrol(b"", 0.5, b"", 7, b"", 3, b"L", b"", [9])) == bytes.fromhex(
        "99 c400 cb3fe0000000000000 c400 07 c400 03 c4014c c400 91 09"
    )


def test_numbers_of_the_types_stay() -> None:
    handshake, model = "Hello Challenge Enrol Welcome", "ModelRequest ModelChunk"
    rounds = "Train Trained Verdict Evaluate Evaluated Finished Refused ThroughputReport"
    later = "ModelParts PartialModelRequest AdaptationReport OverlapReport"
    secure = "SecureOffer GroupReady GroupRequest GroupReply RosterPart"
    attendance = "DeviceNotice ComeAgain"
    names = f"{handshake} {model} {rounds} {later} {secure} {attendance}".split()
    assert {number: kind.__name__ for number, kind in TYPES.items()} == dict(enumerate(names, start=1))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_decode_gives_back_what_was_encoded(kind: type[Message]) -> None:
    assert decode(NUMBERS[kind], encode(EXAMPLES[kind])) == EXAMPLES[kind]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_extra_field_is_refused(kind: type[Message]) -> None:
    values = fields(EXAMPLES[kind])
    assert f"at most length {len(values)}" in refusal(kind, [*values, None])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_missing_field_is_refused(kind: type[Message]) -> None:
    values = fields(EXAMPLES[kind])
    assert f"at least length {len(values)}" in refusal(kind, values[:-1])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_field_of_a_type_that_none_has_is_refused(kind: type[Message]) -> None:
    values = fields(EXAMPLES[kind])
    for at in range(len(values)):
        assert f"$[{at}]" in refusal(kind, [*values[:at], [[1]], *values[at + 1 :]])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_prefix_is_refused(kind: type[Message]) -> None:
    data = encode(EXAMPLES[kind])
    for size in range(len(data)):
        with pytest.raises(BAD_BYTES):
            decode(NUMBERS[kind], data[:size])


def test_bytes_after_the_message_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError, match="trailing characters"):
        decode(NUMBERS[Finished], encode(Finished("done")) + b"\0")


@pytest.mark.parametrize(
    ("kind", "at", "value"),
    [
        (Hello, 3, bytes(31)),  # nonce
        (Hello, 2, -1),  # client
        (Hello, 1, "r" * 65),  # run
        (Enrol, 1, 0.0),  # capacity
        (Enrol, 1, 1.5),
        (Enrol, 1, float("nan")),
        (Enrol, 3, 1 << 31),  # pending
        (Welcome, 5, "float64"),  # values
        (Welcome, 4, {"keep": [[0.5]]}),  # options
        (Welcome, 4, {"keep": [0] * 1001}),
        (Welcome, 8, bytes(33)),  # model_digest
        (ModelChunk, 1, b""),
        (ModelChunk, 1, bytes((1 << 15) + 1)),
        (Train, 2, {"model": "text"}),  # payload
        (Train, 2, {str(name): b"" for name in range(17)}),
        (Train, 3, {str(name): 0 for name in range(65)}),  # settings
        (Trained, 5, "paused"),  # status
        (Trained, 6, {"loss": None}),  # metrics
        (Finished, 0, "r" * (LONGEST_TEXT + 1)),
        (ThroughputReport, 0, [1e-9, float("nan"), 0.0, 0.0, None]),  # throughput
        (ThroughputReport, 0, [-1e-9, 1e-9, 0.0, 0.0, None]),
        (ThroughputReport, 0, [1e-9, 1e-9, 0.0, float("inf"), None]),
        (ThroughputReport, 0, [1e-9, 1e-9, 0.0, 0.0, -1]),
        (DeviceNotice, 0, {str(name): "" for name in range(33)}),  # tags
        (DeviceNotice, 0, {"site": "v" * 65}),
        (DeviceNotice, 0, {"site": 3}),
        (ComeAgain, 0, -0.5),  # seconds
        (ComeAgain, 0, 604800.5),
        (ComeAgain, 0, float("nan")),
    ],
)
def test_value_out_of_its_range_is_refused(kind: type[Message], at: int, value: object) -> None:
    values = fields(EXAMPLES[kind])
    assert f"$[{at}]" in refusal(kind, [*values[:at], value, *values[at + 1 :]])


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        decode(NUMBERS[Finished], b"\x91\xa2\xff\xfe")


def test_sender_checks_what_the_receiver_would_refuse() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"length <= 1000"):
        check(Finished("r" * 1001))
    check(Finished("r" * 1000))


def test_sender_checks_the_names_of_payloads_and_not_their_bytes() -> None:
    train = EXAMPLES[Train]
    check(msgspec.structs.replace(train, payload={"model": bytes(1 << 20)}))
    with pytest.raises(msgspec.ValidationError, match="length <= 64"):
        check(msgspec.structs.replace(train, payload={"n" * 65: b""}))


def array(size: int) -> bytes:
    return b"\xdd" + size.to_bytes(4, "big")


def mapping(size: int) -> bytes:
    return b"\xdf" + size.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param(Finished, array(2**32 - 1) + b"\xa0", id="fields"),
        pytest.param(Finished, b"\x91\xdb\xff\xff\xff\xffabc", id="text"),
        pytest.param(Finished, b"\x91" * 60000 + b"\xc0", id="nested arrays"),
        pytest.param(Train, b"\x95\x01\xc4\x00" + mapping(2**32 - 1), id="payloads"),
        pytest.param(Train, b"\x95\x01\xc4\x00\x81\xa1a\xc6\xff\xff\xff\xff", id="payload"),
        pytest.param(Train, b"\x95\x01\xc4\x00\x80" + mapping(2**32 - 1), id="settings"),
        pytest.param(Train, b"\x95\x01\xc4\x00\x80" + mapping(20000) + b"\xa0\xc0" * 20000, id="settings sent"),
        pytest.param(Welcome, b"\x99\x00\x01\x00\xa1m\x81\xa1k" + array(60000) + b"\xc0" * 60000, id="option"),
    ],
)
def test_a_message_that_claims_or_holds_too_many_items_takes_no_memory(kind: type[Message], data: bytes) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(BAD_BYTES):
            decode(NUMBERS[kind], data)
        assert tracemalloc.get_traced_memory()[1] - before < 8192
    finally:
        tracemalloc.stop()

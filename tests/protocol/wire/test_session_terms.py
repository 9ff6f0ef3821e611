"""Values of messages that earlier messages of the connection have settled: refused by both sides where they differ."""

from __future__ import annotations

import msgspec
import pytest

from edgefl.protocol.wire.messages import (
    PARTS,
    Message,
    ModelChunk,
    ModelParts,
    ModelRequest,
    PartialModelRequest,
    RosterPart,
    SecureOffer,
)
from edgefl.protocol.wire.model_message import LARGEST_MODEL
from edgefl.protocol.wire.secure_messages import LARGEST_ROSTER

from .conversation import (
    CHALLENGE,
    CHUNKS,
    CONVERSATION,
    ENROL,
    HELLO,
    LISTED,
    MODEL,
    MODEL_PARTS,
    THIRD,
    WELCOME,
    Pair,
    both_errors,
    local_error,
    pair_in,
    remote_error,
)


def test_other_protocol_version_is_refused() -> None:
    hello = msgspec.structs.replace(HELLO, protocol=1)
    assert both_errors("greeting", "device", hello) == "Hello with protocol=1; expected 4: update edgefl on the device"


def test_server_of_another_run_is_refused() -> None:
    challenge = msgspec.structs.replace(CHALLENGE, run="run-2")
    expected = "Challenge with run='run-2'; expected 'run-1', in which the device has enrolled"
    assert both_errors("challenging", "server", challenge) == expected


def test_new_device_takes_any_run_and_any_id() -> None:
    pair = Pair()
    pair.say("device", msgspec.structs.replace(HELLO, run="", client=None))
    for sender, message in CONVERSATION[1:7]:
        pair.say(sender, message)
    assert pair.sides["device"].state == "welcomed"


def test_welcome_as_another_client_is_refused() -> None:
    welcome = msgspec.structs.replace(WELCOME, client=4)
    assert both_errors("deciding", "server", welcome) == "Welcome with client=4; expected 3"


@pytest.mark.parametrize("size", [0, LARGEST_MODEL + 1])
def test_model_of_no_or_too_many_bytes_is_refused(size: int) -> None:
    welcome = msgspec.structs.replace(WELCOME, model_bytes=size)
    expected = f"Welcome with model_bytes={size}; expected 1 to {LARGEST_MODEL}"
    assert both_errors("deciding", "server", welcome) == expected


def test_download_resumes_at_any_byte() -> None:
    pair = pair_in("welcomed")
    pair.say("device", ModelRequest(len(MODEL) - 1))
    pair.say("server", ModelChunk(len(MODEL) - 1, MODEL[-1:]))
    assert pair.sides["device"].state == "ready"


def test_request_beyond_the_model_is_refused() -> None:
    expected = f"ModelRequest with offset={len(MODEL)}; expected less than the {len(MODEL)} bytes of the model"
    assert both_errors("welcomed", "device", ModelRequest(len(MODEL))) == expected


def test_second_request_is_refused() -> None:
    error = both_errors("loading", "device", ModelRequest(0))
    assert error == "ModelRequest from the device in state 'loading'; expected Refused"


def test_chunk_out_of_order_is_refused() -> None:
    assert both_errors("loading", "server", CHUNKS[1]) == f"ModelChunk with offset={THIRD}; expected 0"


def test_stale_chunk_is_refused() -> None:
    pair = pair_in("loading")
    pair.say("server", CHUNKS[0])
    assert remote_error(pair, "server", CHUNKS[0]) == f"ModelChunk with offset=0; expected {THIRD}"


def test_chunk_beyond_the_model_is_refused() -> None:
    size = len(MODEL)
    expected = f"ModelChunk with bytes of the model up to {size + 1}; expected at most {size}, the size of the model"
    assert both_errors("loading", "server", ModelChunk(0, MODEL + b"x")) == expected


# The model in parts: LISTED has the last 12 bytes.

BEFORE, HELD = len(MODEL) - 12, PartialModelRequest(0, b"\x01")


def partial(request: PartialModelRequest) -> Pair:
    pair = pair_in("welcomed")
    pair.say("device", request)
    return pair


def test_a_download_ends_where_the_parts_begin_that_the_device_holds() -> None:
    pair = partial(HELD)
    pair.say("server", ModelChunk(0, MODEL[:BEFORE]))
    assert pair.sides["device"].state == pair.sides["server"].state == "ready"


def test_a_device_that_holds_the_rest_of_the_model_is_ready_at_once() -> None:
    for offset in (BEFORE, BEFORE + 5):  # a download that broke off before the part, or within it
        assert partial(PartialModelRequest(offset, b"\x01")).sides["server"].state == "ready"


def test_a_part_that_the_device_lacks_is_sent() -> None:
    pair = partial(PartialModelRequest(BEFORE, b"\x00"))
    pair.say("server", ModelChunk(BEFORE, MODEL[BEFORE:]))
    assert pair.sides["device"].state == "ready"


def test_a_chunk_of_a_part_that_the_device_holds_is_refused() -> None:
    expected = f"ModelChunk with bytes of the model up to {BEFORE + 1}; expected at most {BEFORE}, where a part begins"
    chunk = ModelChunk(0, MODEL[: BEFORE + 1])
    assert remote_error(partial(HELD), "server", chunk).startswith(expected)
    assert local_error(partial(HELD), "server", chunk).startswith(expected)


@pytest.mark.parametrize("held", [b"\x02", b"\x01\x00", b"\xff"])
def test_a_bitmap_of_other_parts_is_refused(held: bytes) -> None:
    error = both_errors("welcomed", "device", PartialModelRequest(0, held))
    assert error == f"PartialModelRequest with held of {len(held)} bytes; expected a bitmap of the 1 listed parts"


def test_a_request_for_parts_beyond_the_model_is_refused() -> None:
    error = both_errors("welcomed", "device", PartialModelRequest(len(MODEL), b"\x01"))
    assert (
        error == f"PartialModelRequest with offset={len(MODEL)}; expected less than the {len(MODEL)} bytes of the model"
    )


def test_parts_are_for_devices_that_have_said_so() -> None:
    pair = pair_in("proving")
    pair.say("device", msgspec.structs.replace(ENROL, model=b""))
    error = local_error(pair, "server", MODEL_PARTS)
    assert error == "ModelParts with 1 parts; expected one list, for a device that can take the model in parts"
    assert remote_error(pair, "server", MODEL_PARTS) == error


def test_parts_that_overlap_or_lie_behind_the_model_are_refused() -> None:
    one = LISTED[0]
    overlapping = ModelParts([one, msgspec.structs.replace(one, offset=one.offset + 11)])
    expected = "ModelParts with 2 parts out of order; expected ascending offsets without overlaps"
    assert both_errors("deciding", "server", overlapping) == expected
    pair = pair_in("deciding")
    pair.say("server", ModelParts([msgspec.structs.replace(one, size=13)]))
    assert local_error(pair, "server", WELCOME).startswith(f"Welcome with model_bytes={len(MODEL)}; expected at least")


def test_a_device_of_before_gets_the_whole_model() -> None:
    """It says that it holds nothing, and a server of before knows no parts."""
    for said in (b"", PARTS):
        pair = pair_in("proving")
        pair.say("device", msgspec.structs.replace(ENROL, model=said))
        pair.say("server", WELCOME)
        pair.say("device", ModelRequest(0))
        for chunk in CHUNKS:
            pair.say("server", chunk)
        assert pair.sides["device"].state == "ready"


def _with_roster(parts: int) -> Pair:
    """Return both sides before Welcome, after this many parts of the roster."""
    pair = pair_in("deciding")
    for part in (RosterPart(9, 0, b"rost"), RosterPart(9, 4, b"er in"))[:parts]:
        pair.say("server", part)
    return pair


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (RosterPart(9, 0, b"rost"), "RosterPart with offset=0; expected 4"),
        (RosterPart(9, 5, b"er"), "RosterPart with offset=5; expected 4"),
        (RosterPart(10, 4, b"er"), "RosterPart with size=10; expected 9, as in the part before"),
        (RosterPart(9, 4, b"er in "), "RosterPart with bytes of the roster up to 10; expected at most 9, the size of"),
        (SecureOffer(b"", 3, 0), "SecureOffer with 4 of 9 bytes of the roster before it; expected all bytes"),
    ],
    ids=["again", "gap", "another size", "too long", "too early"],
)
def test_parts_of_a_roster_that_do_not_fit_are_refused(message: Message, words: str) -> None:
    assert remote_error(_with_roster(1), "server", message).startswith(words)


def test_a_roster_comes_in_parts_or_in_the_offer() -> None:
    expected = "SecureOffer with a roster of 6 bytes after the parts of a roster; expected one of them"
    assert remote_error(_with_roster(2), "server", SecureOffer(b"roster", 3, 0)) == expected


def test_a_roster_of_too_many_bytes_is_refused_with_its_first_part() -> None:
    """The size is stated before the bytes come. So a device spends no memory on a roster that is too large."""
    error = remote_error(_with_roster(0), "server", RosterPart(LARGEST_ROSTER + 1, 0, b"r"))
    assert f"RosterPart: Expected `int` <= {LARGEST_ROSTER} - at `$[0]`" == error

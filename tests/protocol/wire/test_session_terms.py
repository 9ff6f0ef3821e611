"""Values of messages that earlier messages of the connection have settled: refused by both sides where they differ."""

from __future__ import annotations

import msgspec
import pytest

from edgefl.protocol.wire.messages import ModelChunk, ModelRequest
from edgefl.protocol.wire.model_message import LARGEST_MODEL

from .conversation import (
    CHALLENGE,
    CHUNKS,
    CONVERSATION,
    HELLO,
    MODEL,
    THIRD,
    WELCOME,
    Pair,
    both_errors,
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
    for sender, message in CONVERSATION[1:4]:
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

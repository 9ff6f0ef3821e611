"""Every exchange through both sides of a connection, and everything that the state table does not allow."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from edgefl.protocol.wire import frames, messages
from edgefl.protocol.wire.connection import TABLE, Connection, Stage
from edgefl.protocol.wire.handshake import Role
from edgefl.protocol.wire.messages import Finished, Hello, Message, ModelChunk, Refused
from edgefl.protocol.wire.model_message import FRAME_ALLOWANCE, digest, frame_cap

from .conversation import (
    CHUNKS,
    CONVERSATION,
    ENROL,
    EVALUATED,
    EXAMPLES,
    HELLO,
    LISTED,
    MODEL,
    TRAIN,
    TRAINED,
    UP_TO,
    VERDICT,
    WELCOME,
    Pair,
    both_errors,
    local_error,
    pair_in,
    remote_error,
    streams,
)

ROLES: tuple[Role, ...] = get_args(Role)
HOLDING = msgspec.structs.replace(ENROL, model=WELCOME.model_digest)  # of a device that holds the model


# ---- whose turn it is -----------------------------------------------------------------------------------------------


def test_both_sides_are_in_the_same_state_after_every_step_of_a_conversation() -> None:
    pair, states = Pair(), []
    for sender, message in CONVERSATION:
        pair.say(sender, message)
        assert pair.sides["device"].state == pair.sides["server"].state
        states.append(pair.sides["device"].state)
    opening = ["challenging", "proving", *["deciding"] * 4, "welcomed", "loading", "loading", "loading"]
    assert states == opening + ["ready"] * 11 + ["finished", "closed"]


def test_every_message_is_in_the_conversation() -> None:
    assert set(EXAMPLES) == set(messages.NUMBERS)


def test_every_state_is_reached_by_the_conversation() -> None:
    assert set(UP_TO) == set(get_args(Stage))
    assert {state for state, _, _ in TABLE} == set(UP_TO) - {"closed"}


@pytest.mark.parametrize("sender", ROLES)
@pytest.mark.parametrize("state", UP_TO)
def test_what_the_table_lacks_is_refused_by_both_sides(state: Stage, sender: Role) -> None:
    for kind, message in EXAMPLES.items():
        if (state, sender, kind) in TABLE:
            continue
        error = local_error(pair_in(state), sender, message)
        assert error.startswith(f"{kind.__name__} from the {sender} in state '{state}'; expected ")
        if state != "closed":  # where nothing is read any more
            assert remote_error(pair_in(state), sender, message) == error


@pytest.mark.parametrize(("state", "sender", "kind"), TABLE)
def test_what_the_table_has_is_received(state: Stage, sender: Role, kind: type[Message]) -> None:
    pair = pair_in(state)
    pair.say(sender, EXAMPLES[kind])
    expected = TABLE[state, sender, kind]
    assert [side.state for side in pair.sides.values()] == [expected, expected]


def test_error_names_what_was_expected() -> None:
    assert both_errors("deciding", "device", HELLO) == "Hello from the device in state 'deciding'; expected Refused"
    expected = "GroupRequest or Train or Verdict or Evaluate or ComeAgain or Finished or Refused"
    assert both_errors("ready", "server", ENROL) == f"Enrol from the server in state 'ready'; expected {expected}"
    assert local_error(pair_in("closed"), "server", VERDICT).endswith("in state 'closed'; expected none")


def test_train_before_the_device_has_the_model_is_refused() -> None:
    assert both_errors("welcomed", "server", TRAIN).startswith("Train from the server in state 'welcomed'")
    assert both_errors("loading", "server", TRAIN).startswith("Train from the server in state 'loading'")


def test_device_that_holds_the_model_is_ready_at_once() -> None:
    pair = pair_in("proving")
    pair.say("device", msgspec.structs.replace(ENROL, model=WELCOME.model_digest))
    pair.say("server", WELCOME)
    pair.say("server", TRAIN)
    assert pair.sides["device"].state == "ready"


def test_device_that_holds_another_model_is_not_ready() -> None:
    pair = pair_in("proving")
    pair.say("device", msgspec.structs.replace(ENROL, model=digest(b"another")))
    pair.say("server", WELCOME)
    assert pair.sides["server"].state == "welcomed"


def test_messages_that_cross_are_received() -> None:
    pair = pair_in("ready")
    device, server = pair.sides["device"], pair.sides["server"]
    up, down = device.send(TRAINED), server.send(TRAIN)
    assert (device.receive(down), server.receive(up)) == ([TRAIN], [TRAINED])


def test_reply_that_crosses_the_end_gets_its_verdict() -> None:
    pair = pair_in("ready")
    device, server = pair.sides["device"], pair.sides["server"]
    reply = device.send(TRAINED)
    assert device.receive(server.send(Finished("done"))) == [Finished("done")]
    assert server.receive(reply) == [TRAINED]
    assert device.receive(server.send(VERDICT)) == [VERDICT]


@pytest.mark.parametrize("state", ["welcomed", "loading"])
def test_run_may_end_before_the_model_has_arrived(state: str) -> None:
    pair = pair_in(state)
    pair.say("server", Finished("done"))
    assert pair.sides["device"].state == "finished"


# ---- frames ---------------------------------------------------------------------------------------------------------


def test_replayed_frame_is_refused() -> None:
    pair = pair_in("ready")
    frame = pair.say("device", TRAINED)
    with pytest.raises(RemoteProtocolError, match="sequence number 3; expected 4"):
        pair.sides["server"].receive(frame)
    with pytest.raises(RemoteProtocolError, match="sequence number 3; expected 0"):
        Connection("server").receive(frame)  # in another connection


def test_reflected_frame_is_refused() -> None:
    device = Connection("device")
    with pytest.raises(RemoteProtocolError, match="Hello from the server in state 'challenging'; expected Challenge"):
        device.receive(device.send(HELLO))


@pytest.mark.parametrize("number", [0, 26, 255])
def test_unknown_type_is_refused(number: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"message of type {number}; expected 1 to 25"):
        Pair().forge("device", number, b"\x90")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"\x91\xa1", "Refused: Input data was truncated"),
        (b"\x90", "Refused: Expected `array` of at least length 1, got 0"),
        (b"\x92\xa0\xa0", "Refused: Expected `array` of at most length 1, got 2"),
        (b"\x91\x07", "Refused: Expected `str`, got `int` - at `$[0]`"),
        (b"\x91\xa1\xff", "Refused: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"\x80", "Refused: Expected `array`, got `object`"),
    ],
)
def test_malformed_body_is_refused(body: bytes, error: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        Pair().forge("server", messages.NUMBERS[Refused], body)
    assert str(caught.value) == error


def test_before_welcome_frames_are_small() -> None:
    pair = Pair()
    header = frames.encode(messages.NUMBERS[Hello], 0, bytes(FRAME_ALLOWANCE + 1))[: frames.HEADER.size]
    with pytest.raises(RemoteProtocolError, match="frame of 65537 bytes; the limit is 65536"):
        pair.sides["server"].receive(header)


def test_from_welcome_on_the_cap_is_derived_from_the_model() -> None:
    pair = pair_in("deciding")
    assert {side.cap for side in pair.sides.values()} == {FRAME_ALLOWANCE}
    pair.say("server", WELCOME)
    assert {side.cap for side in pair.sides.values()} == {frame_cap(len(MODEL))}


def test_frozen_parameters_do_not_raise_the_cap() -> None:
    """Parts that the server lists are frozen. A side that has the model knows its frozen parameters without a list."""
    assert {side.cap for side in pair_in("welcomed").sides.values()} == {frame_cap(len(MODEL) - LISTED[0].size)}
    pair = Pair()
    pair.sides["device"] = Connection("device", frozen_bytes=20)
    for sender, message in (*CONVERSATION[:2], ("device", HOLDING), ("server", WELCOME)):
        pair.say(sender, message)
    assert pair.sides["device"].cap == frame_cap(len(MODEL) - 20) < pair.sides["server"].cap == frame_cap(len(MODEL))


def test_large_train_in_one_piece_with_welcome_is_received() -> None:
    pair = pair_in("proving")
    device, server = pair.sides["device"], pair.sides["server"]
    pair.say("device", HOLDING)
    train = msgspec.structs.replace(TRAIN, payload={"model": bytes(FRAME_ALLOWANCE + 100)})
    piece = server.send(WELCOME) + server.send(train)
    assert device.receive(piece) == [WELCOME, train]


def test_frame_above_the_cap_is_neither_sent_nor_received() -> None:
    cap = frame_cap(len(MODEL) - LISTED[0].size)
    overhead = len(messages.encode(msgspec.structs.replace(TRAINED, payload={"model": bytes(cap)}))) - cap
    fitting = msgspec.structs.replace(TRAINED, payload={"model": bytes(cap - overhead)})
    pair_in("ready").say("device", fitting)
    larger = msgspec.structs.replace(TRAINED, payload={"model": bytes(cap - overhead + 1)})
    assert local_error(pair_in("ready"), "device", larger) == f"Trained of {cap + 1} bytes; the limit is {cap}"
    assert remote_error(pair_in("ready"), "device", larger) == f"frame of {cap + 1} bytes; the limit is {cap}"


def test_welcome_never_lowers_the_cap() -> None:
    pair = Pair(cap=1 << 20)
    for sender, message in CONVERSATION[:5]:
        pair.say(sender, message)
    assert {side.cap for side in pair.sides.values()} == {1 << 20}


@given(st.sampled_from(list(UP_TO)), st.sampled_from(ROLES), st.integers(0, 20), st.binary(min_size=1, max_size=100))
def test_random_bodies_raise_nothing_but_protocol_errors(state: str, role: Role, number: int, body: bytes) -> None:
    pair = pair_in(state)
    with contextlib.suppress(ProtocolError):
        for message in pair.forge(role, number, body):
            data = messages.encode(message)
            assert messages.encode(messages.decode(number, data)) == data  # bytes, as NaN differs from itself


def test_mid_frame_inside_a_frame_only() -> None:
    hello, server = Connection("device").send(HELLO), Connection("server")
    assert server.receive(hello[:-1]) == [] and server.mid_frame
    assert server.receive(hello[-1:]) == [HELLO] and not server.mid_frame


@given(st.sampled_from(ROLES), st.data())
def test_any_split_of_the_bytes_gives_the_same_messages(role: Role, data: st.DataObject) -> None:
    sides = Pair().sides
    receiver = sides["server" if role == "device" else "device"]
    found, expected = [], []
    frames_left, whole = iter(streams()[role]), b""
    for sender, message in CONVERSATION:
        if sender == role:
            whole += next(frames_left)
            expected.append(message)
            continue
        found += split_receive(receiver, whole, data)  # all that the role said until the receiver's turn
        whole = b""
        receiver.send(message)
    found += split_receive(receiver, whole, data)
    assert found == expected


def split_receive(receiver: Connection, whole: bytes, data: st.DataObject) -> list[Message]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    return [found for start, end in pairwise([0, *cuts, len(whole)]) for found in receiver.receive(whole[start:end])]


# ---- after an error -------------------------------------------------------------------------------------------------


def test_after_an_error_of_the_peer_only_refused_is_sent_and_nothing_is_read() -> None:
    pair = pair_in("ready")
    server = pair.sides["server"]
    error = remote_error(pair, "device", HELLO)
    with pytest.raises(LocalProtocolError, match="Verdict after the peer broke the protocol; expected Refused"):
        server.send(VERDICT)
    assert server.receive(pair.sides["device"].send(TRAINED)) == []
    assert pair.sides["device"].receive(server.refuse(error)) == [Refused(error)]
    assert server.state == pair.sides["device"].state == "closed"


def test_nothing_is_read_after_refused() -> None:
    pair = pair_in("ready")
    device, server = pair.sides["device"], pair.sides["server"]
    piece = server.send(Refused("too slow")) + b"and what follows"
    assert device.receive(piece) == [Refused("too slow")]
    assert device.receive(b"still more") == []
    assert device.received_bytes == server.sent_bytes + len(b"and what follows" + b"still more")


def test_message_that_may_not_be_sent_changes_nothing() -> None:
    pair = pair_in("loading")
    for message in (TRAIN, CHUNKS[1], ModelChunk(0, b""), ModelChunk(0, MODEL + b"x")):
        local_error(pair, "server", message)
    for chunk in CHUNKS:
        pair.say("server", chunk)
    assert pair.sides["device"].state == "ready"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (msgspec.structs.replace(TRAINED, round=-1), "Trained: Expected `int` >= 0 - at `$[0]`"),
        (msgspec.structs.replace(TRAINED, round=1 << 70), "Trained: can't serialize ints < -2**63 or > 2**64 - 1"),
        (msgspec.structs.replace(TRAINED, seconds=1j), "Trained: Encoding objects of type complex is unsupported"),
        (msgspec.structs.replace(EVALUATED, personal=0), "Evaluated: Expected `array | null`, got `int` - at `$[1]`"),
        (Refused("x" * 1001), "Refused: Expected `str` of length <= 1000 - at `$[0]`"),
        (
            Refused("\ud800"),
            "Refused: 'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
        ),
    ],
)
def test_values_that_the_peer_would_refuse_are_not_sent(message: Message, error: str) -> None:
    assert local_error(pair_in("ready"), "device", message) == error


def test_refuse_cuts_a_long_reason() -> None:
    pair = Pair()
    assert pair.sides["device"].receive(pair.sides["server"].refuse("no" * 1000)) == [Refused("no" * 500)]


def test_refuse_replaces_what_is_not_text() -> None:
    pair = Pair()
    assert pair.sides["device"].receive(pair.sides["server"].refuse("file \udcff")) == [Refused("file ?")]


def test_refuse_on_a_closed_connection_sends_nothing() -> None:
    assert pair_in("closed").sides["server"].refuse("again") == b""

"""The counts of a connection: the bytes at the socket are payload and stated header bytes."""

from __future__ import annotations

import msgspec

from edgefl.protocol.wire import frames, messages
from edgefl.protocol.wire.connection import Connection

from .conversation import CONVERSATION, MODEL, TRAINED, Pair, pair_in, streams


def test_bytes_on_the_wire_are_payload_and_stated_headers() -> None:
    pair = Pair()
    written = {role: sum(len(frame) for frame in sent) for role, sent in streams().items()}
    for sender, message in CONVERSATION:
        pair.say(sender, message)
    device, server = pair.sides["device"], pair.sides["server"]
    assert (device.sent_bytes, device.received_bytes) == (written["device"], written["server"])
    assert (server.sent_bytes, server.received_bytes) == (written["server"], written["device"])
    up, down = 200, len(MODEL) + 3 + 200 + 5 + 300  # TRAINED up, and down the model, TRAIN and EVALUATE
    assert (device.sent_header_bytes, server.received_header_bytes) == (written["device"] - up,) * 2
    assert (server.sent_header_bytes, device.received_header_bytes) == (written["server"] - down,) * 2


def test_header_bytes_of_a_message_do_not_depend_on_its_payload() -> None:
    counts = []
    for size in (300, 400):
        pair = pair_in("ready")
        before = pair.sides["device"].sent_header_bytes
        pair.say("device", msgspec.structs.replace(TRAINED, payload={"model": bytes(size)}))
        counts.append(pair.sides["device"].sent_header_bytes - before)
    name, length, empty = 6, 3, messages.encode(msgspec.structs.replace(TRAINED, payload={}))
    assert counts == [frames.HEADER.size + len(empty) + name + length] * 2


def test_bytes_of_unfinished_frames_are_counted_as_received() -> None:
    server = Connection("server")
    server.receive(b"EF")
    assert (server.received_bytes, server.received_header_bytes) == (2, 0)

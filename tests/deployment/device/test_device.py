"""A device's half of the protocol, driven through two connections without sockets: what follows what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edgefl.deployment.device.device_protocol import Device
from edgefl.protocol.wire import handshake
from edgefl.protocol.wire.messages import Challenge, Trained, Verdict
from tests.deployment.device.device_cases import (
    cut,
    enrol,
    files,
    messages_of,
)
from tests.deployment.device.device_server import ScriptedServer, converse


def test_a_round_is_trained_acknowledged_and_kept(server: ScriptedServer, make: Callable[..., Device]) -> None:
    device = make()
    converse(device, server)
    assert device.finished == "all rounds are done"
    assert [reply.round for reply in server.replies.values()] == [1, 2]
    state = device._state
    assert (state.round, state.pending, state.path.joinpath("pending.safetensors").exists()) == (2, 0, False)
    personal = state.personal()
    assert personal is not None
    assert personal.private["status"] == server.replies[2].status


def test_an_unacknowledged_reply_is_sent_first(server: ScriptedServer, make: Callable[..., Device]) -> None:
    cut(make(), server, "send Trained")
    again = make()
    assert again.is_waiting
    converse(again, server)
    assert (enrol(server).pending, type(server.received[2])) == (1, Trained)
    assert again.finished is not None


def test_a_lost_verdict_is_given_again(server: ScriptedServer, make: Callable[..., Device]) -> None:
    cut(make(), server, "handle Verdict")
    assert list(server.replies) == [1]
    again = make()
    converse(again, server)
    assert enrol(server).pending == 1
    assert list(server.replies) == [1, 2]


def test_what_is_asked_while_a_reply_waits_is_done_after_its_verdict(server: ScriptedServer, make: Any) -> None:
    assert server.evaluate is not None
    cut(make(), server, "send Trained")
    device = make()
    device.hello(bytes(32))
    assert messages_of(device, server.script[2], server.evaluate) == []
    first = messages_of(device, Verdict(1, "accepted", ""))
    assert [answer.round for answer in first] == [2]  # the evaluation waits for the second verdict
    second = messages_of(device, Verdict(2, "late", ""))
    assert [type(answer).__name__ for answer in second] == ["Evaluated"]


def test_what_was_asked_over_a_broken_connection_is_forgotten(server: ScriptedServer, make: Any) -> None:
    cut(make(), server, "send Trained")
    device = make()
    assert messages_of(device, server.script[2]) == []
    device.hello(bytes(32))
    assert messages_of(device, Verdict(1, "accepted", "")) == []


def test_a_device_says_its_secret_until_it_has_enrolled_and_proves_it_then(server: ScriptedServer, make: Any) -> None:
    device = make(random_bytes=lambda size: bytes(range(size)))
    device.hello(bytes(32))
    first = messages_of(device, Challenge(server.run, bytes(32), b""))
    again = make()
    again.hello(bytes(32))
    (enrol,) = messages_of(again, Challenge(server.run, bytes(32), b""))
    assert [enrol] == first
    assert (enrol.secret, enrol.proof) == (bytes(range(32)), b"")
    converse(again, server)
    assert again.client == 0
    again.hello(bytes(32))
    meeting = server.run, 0, bytes(32), bytes(32)
    (enrol,) = messages_of(again, Challenge(*meeting[::3], handshake.proof(bytes(range(32)), "server", *meeting)))
    assert (enrol.secret, enrol.proof) == (b"", handshake.proof(bytes(range(32)), "device", *meeting))


def test_a_round_that_has_been_is_not_trained_again(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    converse(device, server)
    before = files(device)
    assert messages_of(device, server.script[1], server.script[2]) == []
    assert said == [f"the server asks for round {r} after round 2: ignored" for r in (1, 2)]
    assert files(device) == before


def test_a_verdict_on_another_round_is_ignored(server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    cut(make(), server, "send Trained")
    device = make(said=said)
    assert messages_of(device, Verdict(2, "accepted", "")) == []
    assert device.is_waiting
    assert said == ["verdict on round 2, for which no reply waits: ignored"]


def test_a_late_round_is_kept(server: ScriptedServer, make: Any) -> None:
    accepted = make(0)
    converse(accepted, server)
    late = make(1)
    server.replies, server.outcomes = {}, {2: "late"}
    converse(late, server)
    assert files(late) == files(accepted)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_refused_round_leaves_the_device_as_it_was(restarted: bool, server: ScriptedServer, make: Any) -> None:
    said: list[str] = []
    device = make(said=said)
    cut(device, server, "send Trained")
    if restarted:
        device = make(said=said)
    assert messages_of(device, Verdict(1, "refused", "reply of client 0 has loss=nan")) == []
    assert said == ["round 1: the server refused the reply (reply of client 0 has loss=nan)"]
    assert not {"pending.safetensors", "local.safetensors"} & files(device).keys()
    untouched = make(1)
    only = replace(server, script={2: server.script[2]}, replies={})
    converse(untouched, only)
    server.script = {2: server.script[2]}
    converse(device, server)
    assert server.replies[2] == only.replies[2]  # as if round 1 had not been

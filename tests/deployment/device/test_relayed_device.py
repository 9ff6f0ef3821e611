"""A device told by envelopes: what it trains is what it trains over a connection, whichever process answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.relayed_device import RelayClient
from edgefl.experiment.client_dataset import partition_file, read_partition
from edgefl.experiment.federation import Federation
from edgefl.protocol.wire import envelope as envelopes
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import (
    PARTS,
    Challenge,
    Enrol,
    Evaluated,
    Finished,
    Hello,
    Message,
    Refused,
    Trained,
    Verdict,
)
from edgefl.protocol.wire.model_message import chunks
from tests.deployment.device.device_cases import ANYBODY, METHODS, scripted, world
from tests.deployment.device.device_server import NONCE, RUN, ScriptedServer, converse

CHALLENGE = Challenge(RUN, NONCE, b"")


class Post:
    """Carries envelopes to a device whose process ends after each of them, unless it is told to stay."""

    def __init__(self, path: Path, data: Data) -> None:
        self.path, self._data = path, data
        self.finished: str | None = None

    def ask(self, *said: Message, run: str = RUN) -> tuple[Message, ...]:
        return envelopes.decode("device", self.carry(envelopes.encode("server", Envelope(run, said))), 1 << 20).messages

    def carry(self, data: bytes) -> bytes:
        device = RelayClient(self.path, ANYBODY, self._data, world())
        try:
            return device.answer(data)
        finally:
            self.finished = device.finished
            device.close()


@pytest.fixture
def relay(partitions: Path, tmp_path: Path) -> Post:
    return Post(tmp_path / "state", Data(*read_partition(partition_file(partitions, 0))))


def begun(server: ScriptedServer) -> tuple[Message, ...]:
    return (server.welcome, *chunks(server.model, 0))


@pytest.mark.parametrize("name", ["fedspu-es", "fedumf-feddc"])
def test_it_replies_what_a_connected_device_replies(
    name: str, federation: Federation, make: Callable[..., Device], relay: Post
) -> None:
    connected, told = (scripted(federation, METHODS[name], [1, 2]) for _ in range(2))
    converse(make(), connected)
    hello, enrol = relay.ask(CHALLENGE)
    assert isinstance(hello, Hello)
    assert isinstance(enrol, Enrol)
    assert (hello.run, enrol.round, enrol.pending, len(enrol.secret), enrol.model) == ("", 0, 0, 32, PARTS)
    (first,) = relay.ask(*begun(told), told.script[1])
    (second,) = relay.ask(Verdict(1, "accepted", ""), told.script[2])
    assert [first, second] == [connected.replies[1], connected.replies[2]]
    assert told.evaluate is not None
    assert relay.ask(Verdict(2, "accepted", ""), told.evaluate) == (connected.scores[0],)
    assert isinstance(connected.scores[0], Evaluated)
    assert relay.ask(Finished("all rounds are done")) == ()
    assert relay.finished == "all rounds are done"


def test_an_envelope_that_comes_twice_gets_the_same_bytes(server: ScriptedServer, relay: Post) -> None:
    relay.ask(CHALLENGE)
    asked = envelopes.encode("server", Envelope(RUN, (*begun(server), server.script[1])))
    first = relay.carry(asked)
    kept = (next((relay.path / "runs").iterdir()) / "pending.safetensors").read_bytes()
    assert relay.carry(asked) == first
    assert (next((relay.path / "runs").iterdir()) / "pending.safetensors").read_bytes() == kept


def test_an_envelope_without_a_welcome_may_come_twice_too(server: ScriptedServer, relay: Post) -> None:
    relay.ask(CHALLENGE)
    relay.ask(*begun(server), server.script[1])
    asked = Verdict(1, "accepted", ""), server.script[2]
    (first,) = relay.ask(*asked)
    assert isinstance(first, Trained)
    assert relay.ask(*asked) == (first,)


def test_a_reply_that_was_lost_goes_again_with_the_next_welcome(server: ScriptedServer, relay: Post) -> None:
    relay.ask(CHALLENGE)
    (lost,) = relay.ask(*begun(server), server.script[1])
    _, enrol = relay.ask(CHALLENGE)
    assert isinstance(enrol, Enrol)
    assert (enrol.pending, enrol.model) == (1, server.welcome.model_digest)
    assert relay.ask(server.welcome) == (lost,)


def test_a_process_that_nobody_heard_of_is_not_another_life(server: ScriptedServer, relay: Post) -> None:
    lives = [relay.ask(CHALLENGE)[1] for _ in range(2)]
    relay.ask(*begun(server))
    lives += [relay.ask(CHALLENGE)[1] for _ in range(2)]
    found = [(each.life, each.before) for each in lives if isinstance(each, Enrol)]
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[2][1] == found[0][0]


def test_what_cannot_be_done_is_refused_in_words(server: ScriptedServer, relay: Post) -> None:
    (refusal,) = relay.ask(server.script[1])
    assert refusal == Refused(f"Train in run {RUN}, before its server welcomed this device")
    relay.ask(CHALLENGE)
    (refusal,) = relay.ask(server.welcome, server.script[1])
    assert isinstance(refusal, Refused)
    assert "model.bin cannot be read" in refusal.reason


def test_a_verdict_may_follow_what_waits_for_it(server: ScriptedServer, relay: Post) -> None:
    """The round was closed without its reply, and the next round had begun."""
    relay.ask(CHALLENGE)
    relay.ask(*begun(server), server.script[1])
    (reply,) = relay.ask(server.script[2], Verdict(1, "late", ""))
    assert isinstance(reply, Trained)
    assert reply.round == 2

"""A device told by letters: what it trains is what it trains over a connection, whichever process answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.relayed_device import RelayClient
from edgefl.experiment.client_dataset import read_share, share_file
from edgefl.experiment.federation import Federation
from edgefl.protocol.wire import envelope as letters
from edgefl.protocol.wire.envelope import Envelope
from edgefl.protocol.wire.messages import (
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
    """Carries letters to a device whose process ends after each of them, unless it is told to stay."""

    def __init__(self, path: Path, data: Data) -> None:
        self.path, self._data = path, data
        self.finished: str | None = None

    def ask(self, *said: Message, run: str = RUN) -> tuple[Message, ...]:
        return letters.decode("device", self.carry(letters.encode("server", Envelope(run, said))), 1 << 20).messages

    def carry(self, data: bytes) -> bytes:
        device = RelayClient(self.path, ANYBODY, self._data, world())
        try:
            return device.answer(data)
        finally:
            self.finished = device.finished
            device.close()


@pytest.fixture
def post(dealt: Path, tmp_path: Path) -> Post:
    return Post(tmp_path / "state", Data(*read_share(share_file(dealt, 0))))


def begun(server: ScriptedServer) -> tuple[Message, ...]:
    return (server.welcome, *chunks(server.model, 0))


@pytest.mark.parametrize("name", ["fedspu-es", "fedumf-feddc"])
def test_it_replies_what_a_connected_device_replies(
    name: str, federation: Federation, make: Callable[..., Device], post: Post
) -> None:
    connected, told = (scripted(federation, METHODS[name], [1, 2]) for _ in range(2))
    converse(make(), connected)
    hello, enrol = post.ask(CHALLENGE)
    assert isinstance(hello, Hello)
    assert isinstance(enrol, Enrol)
    assert (hello.run, enrol.round, enrol.pending, len(enrol.secret), enrol.model) == ("", 0, 0, 32, b"")
    (first,) = post.ask(*begun(told), told.script[1])
    (second,) = post.ask(Verdict(1, "accepted", ""), told.script[2])
    assert [first, second] == [connected.replies[1], connected.replies[2]]
    assert told.evaluate is not None
    assert post.ask(Verdict(2, "accepted", ""), told.evaluate) == (connected.scores[0],)
    assert isinstance(connected.scores[0], Evaluated)
    assert post.ask(Finished("all rounds are done")) == ()
    assert post.finished == "all rounds are done"


def test_a_letter_that_comes_twice_gets_the_same_bytes(server: ScriptedServer, post: Post) -> None:
    post.ask(CHALLENGE)
    asked = letters.encode("server", Envelope(RUN, (*begun(server), server.script[1])))
    first = post.carry(asked)
    kept = (next((post.path / "runs").iterdir()) / "pending.safetensors").read_bytes()
    assert post.carry(asked) == first
    assert (next((post.path / "runs").iterdir()) / "pending.safetensors").read_bytes() == kept


def test_a_letter_without_a_welcome_may_come_twice_too(server: ScriptedServer, post: Post) -> None:
    post.ask(CHALLENGE)
    post.ask(*begun(server), server.script[1])
    asked = Verdict(1, "accepted", ""), server.script[2]
    (first,) = post.ask(*asked)
    assert isinstance(first, Trained)
    assert post.ask(*asked) == (first,)


def test_a_reply_that_was_lost_goes_again_with_the_next_welcome(server: ScriptedServer, post: Post) -> None:
    post.ask(CHALLENGE)
    (lost,) = post.ask(*begun(server), server.script[1])
    _, enrol = post.ask(CHALLENGE)
    assert isinstance(enrol, Enrol)
    assert (enrol.pending, enrol.model) == (1, server.welcome.model_digest)
    assert post.ask(server.welcome) == (lost,)


def test_a_process_that_nobody_heard_of_is_not_another_life(server: ScriptedServer, post: Post) -> None:
    lives = [post.ask(CHALLENGE)[1] for _ in range(2)]
    post.ask(*begun(server))
    lives += [post.ask(CHALLENGE)[1] for _ in range(2)]
    found = [(each.life, each.before) for each in lives if isinstance(each, Enrol)]
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[2][1] == found[0][0]


def test_what_cannot_be_done_is_refused_in_words(server: ScriptedServer, post: Post) -> None:
    (refusal,) = post.ask(server.script[1])
    assert refusal == Refused(f"Train in run {RUN}, which has not welcomed this device")
    post.ask(CHALLENGE)
    (refusal,) = post.ask(server.welcome, server.script[1])
    assert isinstance(refusal, Refused)
    assert "model.bin cannot be read" in refusal.reason


def test_a_verdict_may_follow_what_waits_for_it(server: ScriptedServer, post: Post) -> None:
    """As when a round was closed without its reply, and the next one had begun."""
    post.ask(CHALLENGE)
    post.ask(*begun(server), server.script[1])
    (reply,) = post.ask(server.script[2], Verdict(1, "late", ""))
    assert isinstance(reply, Trained)
    assert reply.round == 2

"""A device says what it has to say about its presence, and its server sends it away for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgefl.deployment.device.attendance import SentAwayError
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, ServerAddress
from edgefl.errors import RemoteProtocolError
from edgefl.protocol.wire.connection import Connection
from edgefl.protocol.wire.messages import ComeAgain, DeviceNotice, Message, ThroughputReport, Trained, Verdict
from tests.deployment.device.device_cases import ANYBODY, cut, files, messages_of, world
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import NONCE, ScriptedServer, converse
from tests.deployment.device.sleepy_server import SleepyServer

TAGGED = ANYBODY._replace(tags={"site": "north"})
SLEEPER = ANYBODY._replace(sleeps=True)


def kinds(server: ScriptedServer) -> list[str]:
    """Return what the server heard over the last connection, from the model on."""
    return [type(message).__name__ for message in server.received[2:]]


def notices(server: ScriptedServer) -> list[Message]:
    return [message for message in server.received if isinstance(message, DeviceNotice)]


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (ANYBODY, []),
        (TAGGED, [DeviceNotice({"site": "north"}, False, False)]),
        (SLEEPER, [DeviceNotice({}, True, False)]),
    ],
)
def test_a_device_that_has_something_to_say_says_it_once_in_each_connection(
    profile: Any, said: list[Message], server: ScriptedServer, make: Callable[..., Device]
) -> None:
    device = make(profile=profile)
    cut(device, server, "handle Verdict")
    heard = [type(message).__name__ for message in said]
    assert (kinds(server), notices(server)) == (["ModelRequest", *heard, "Trained"], said)
    converse(device, server)
    assert (kinds(server), notices(server)) == (["Trained", *heard, "Trained", "Evaluated"], said)


def test_a_device_in_envelopes_gives_no_notice(server: ScriptedServer, make: Callable[..., Device]) -> None:
    device = make(profile=TAGGED)
    device._is_vouched = True
    converse(device, server)
    assert (device.finished, notices(server)) == ("all rounds are done", [])


@pytest.fixture
def sleepy(server: ScriptedServer) -> SleepyServer:
    return SleepyServer.like(server)


class Sleep:
    """Notes the waits between connections instead of waiting."""

    def __init__(self) -> None:
        self.now, self.slept, self.said = 0.0, list[float](), list[str]()

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def run(self, sleepy: SleepyServer, device: Device) -> str:
        """Take part to the end of the run, over real sockets. A device gives up after 5 s without progress."""
        environment = DeviceEnvironment(self.said.append, fails, lambda: self.now, sleep=self)
        with Listener(sleepy) as listener:
            return DeviceSocket(ServerAddress.parse(listener.address), device, None, bytes, environment, 5.0).run()


def fails(failures: int) -> None:
    raise AssertionError("a connection has failed")


def lines(said: list[str]) -> list[str]:
    """The lines without the address of the server."""
    return [line.partition(": ")[2] for line in said]


def test_a_device_that_is_sent_away_comes_again_after_that_time(
    server: ScriptedServer, sleepy: SleepyServer, make: Callable[..., Device]
) -> None:
    undisturbed, device, sleep = make(1, profile=SLEEPER), make(profile=SLEEPER), Sleep()
    converse(undisturbed, server)
    sleepy.times = 6
    assert sleep.run(sleepy, device) == "all rounds are done"
    assert sleep.slept == [412.0] * 6  # also without any progress in between, and longer than the device gives up
    assert files(device) == files(undisturbed)
    one = ["connected as client 0", "the server has no work: connecting again in 412 s"]
    assert lines(sleep.said) == [*one * 6, one[0]]


def test_a_reply_without_a_verdict_comes_again_with_the_device(
    server: ScriptedServer, sleepy: SleepyServer, make: Callable[..., Device]
) -> None:
    undisturbed, device, sleep = make(1, profile=SLEEPER), make(profile=SLEEPER), Sleep()
    converse(undisturbed, server)
    sleepy.after = Trained
    assert sleep.run(sleepy, device) == "all rounds are done"
    assert (kinds(sleepy)[0], list(sleepy.replies), sleep.slept) == ("Trained", [1, 2], [412.0])
    assert files(device) == files(undisturbed)


def test_no_server_makes_a_device_connect_without_a_pause(sleepy: SleepyServer, make: Callable[..., Device]) -> None:
    sleep, sleepy.seconds, sleepy.times = Sleep(), 0.0, 2
    assert sleep.run(sleepy, make(profile=SLEEPER)) == "all rounds are done"
    assert sleep.slept == [0.2, 0.2]


def test_a_device_that_does_not_sleep_is_not_sent_away(make: Callable[..., Device]) -> None:
    with pytest.raises(RemoteProtocolError, match="ComeAgain in 412 s to a device that does not sleep"):
        messages_of(make(profile=TAGGED), ComeAgain(412.0))


def test_what_comes_with_being_sent_away_is_handled_and_not_answered(
    server: ScriptedServer, make: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict counts, and the report that the device would send after the verdict finds a closed connection."""
    device, sent = make(profile=SLEEPER), list[bytes]()
    cut(device, server, "handle Verdict")
    assert device.is_waiting
    monkeypatch.setattr(device._declaring, "is_outdated", lambda: True)
    monkeypatch.setattr(device, "_declare", lambda: iter([ThroughputReport(None)]))
    theirs, mine = server.connect(), Connection("device")
    (challenge,) = server.answers(*theirs.receive(mine.send(device.hello(NONCE))))
    mine.receive(theirs.send(challenge))
    (enrol,) = device.handle(challenge)
    (welcome,) = server.answers(*theirs.receive(mine.send(enrol)))
    mine.receive(theirs.send(welcome))
    pieces = theirs.send(Verdict(1, "accepted", "")) + theirs.send(ComeAgain(412.0))
    socket = DeviceSocket(ServerAddress("server", 1), device, None, bytes, world())
    with pytest.raises(SentAwayError):
        socket._answer(Sent(sent), mine, pieces)  # type: ignore[arg-type]
    assert (device.is_waiting, sent) == (False, [])


class Sent:
    """A link that notes what is sent."""

    def __init__(self, sent: list[bytes]) -> None:
        self.sendall = sent.append

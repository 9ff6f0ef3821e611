"""A device that leaves its run, with or without the model, and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli.cli import main
from edgefl.deployment.device.departure import DepartingDevice
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.participation import leave, take_part
from edgefl.deployment.device.run_folders import StateDirectory, folders, read_over
from edgefl.errors import RequestError, RunError
from edgefl.experiment.client_dataset import partition_file, read_partition
from edgefl.protocol.wire.messages import DeviceNotice, Finished, Message, ModelRequest, Refused
from tests.deployment.device.device_cases import ANYBODY, cut, world
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import RUN, ScriptedServer, converse

LEFT = "client 0 has left the run"


class Left(ScriptedServer):
    """A server that knows the notice of a device that leaves."""

    def answers(self, message: Message) -> Iterator[Message]:
        if isinstance(message, DeviceNotice):
            self.received.append(message)
            if message.leaves:
                yield Finished(LEFT)
            return
        yield from super().answers(message)


@pytest.fixture
def left(server: ScriptedServer) -> Left:
    return Left(server.welcome, server.model, server.script, server.evaluate)


@pytest.fixture
def data(partitions: Path) -> Data:
    return Data(*read_partition(partition_file(partitions, 0)))


def talking(server: ScriptedServer) -> Callable[[Any], str]:
    """The function that lets a party talk to the server, in memory."""

    def talk(party: Any) -> str:
        converse(party, server)
        assert party.finished is not None
        return str(party.finished)

    return talk


@pytest.mark.parametrize(
    ("before", "asks"), [("handle ModelChunk", True), ("handle Train", False), ("handle Verdict", False)]
)
def test_a_device_leaves_its_run_and_comes_back(
    before: str, asks: bool, left: Left, data: Data, tmp_path: Path
) -> None:
    """It leaves without the model, before its first round, and with a reply that waits for the verdict."""
    directory = StateDirectory(tmp_path)
    cut(Device(directory.open(RUN, None), ANYBODY, data, world()), left, before)
    left.replies.clear()
    assert leave(directory, ANYBODY._replace(tags={"site": "north"}), world(), talking(left)) == LEFT
    request = [ModelRequest(len(left.model) - 1)] if asks else []  # the last byte alone
    assert left.received[2:] == [*request, DeviceNotice({"site": "north"}, False, True)]
    (folder,) = folders(tmp_path)
    assert read_over(folder) is None
    assert take_part(directory, ANYBODY, data, world(), talking(left)) == "all rounds are done"
    assert list(left.replies) == [1, 2]


def test_a_device_that_never_enrolled_cannot_leave(left: Left, tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    with pytest.raises(RequestError, match=f"{tmp_path}/.* has not enrolled in run {RUN}; expected the --state of a"):
        leave(directory, ANYBODY, world(), talking(left))


def test_the_refusal_of_an_earlier_server_is_an_error(left: Left, data: Data, tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    state = directory.open(RUN, None)
    cut(Device(state, ANYBODY, data, world()), left, "handle Train")
    with pytest.raises(RunError, match="the server refuses: message of type 24; expected 1 to 23"):
        list(DepartingDevice(state, ANYBODY, world()).handle(Refused("message of type 24; expected 1 to 23")))


def test_the_command_says_the_answer_and_leaves_the_files(
    left: Left, data: Data, partitions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = StateDirectory(tmp_path / "state")
    cut(Device(directory.open(RUN, None), ANYBODY, data, world()), left, "handle Train")
    directory.close()
    with Listener(left) as listener:
        place = ["client", "--server", listener.address, "--state", str(tmp_path / "state")]
        assert main([*place, "--leave"]) == 0
        assert capsys.readouterr().err.splitlines()[-1].endswith(f"the server says: {LEFT}")
        assert main([*place, "--data", str(partition_file(partitions, 0))]) == 0
    assert list(left.replies) == [1, 2]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--server", "127.0.0.1:1"], "--data is missing; expected the file of the device's samples"),
        (["--server", "127.0.0.1:1", "--leave"], "which is no directory; expected the device's state"),
        (["--flower", "http://127.0.0.1:1", "--leave"], "--leave with --flower; expected --server"),
        (["--server", "127.0.0.1:1", "--tag", "site"], "--tag: 'site' is not a tag; expected NAME=VALUE"),
        (["--flower", "http://127.0.0.1:1", "--tag", "a=b"], "--tag a=b with --flower; expected --server"),
        (["--flower", "http://127.0.0.1:1", "--sleep"], "--sleep with --flower; expected --server"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    options: list[str], error: str, partitions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [] if "missing" in error else ["--data", str(partition_file(partitions, 0))]
    assert main(["client", "--state", str(tmp_path / "none"), *options, *data]) == 2
    assert error in " ".join(capsys.readouterr().err.split())

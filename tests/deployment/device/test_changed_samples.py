"""A device whose samples have changed since it enrolled: refused by name, or accepted and said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.cli.cli import main
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.errors import RequestError
from edgefl.experiment.client_dataset import partition_file, read_partition
from tests.deployment.device.device_cases import ANYBODY, cut, world
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer, converse


@pytest.fixture
def opened(partitions: Path, make: Callable[..., Device], server: ScriptedServer, tmp_path: Path) -> Any:
    """Enrol, then open the directory again with other samples. Return the device and the lines that it prints."""
    device = make()
    cut(device, server, "handle Train")
    device._state.close()
    held = Data(*read_partition(partition_file(partitions, 0)))

    def again(change: Callable[[Data], Data], accepts_data: bool = False) -> tuple[Device, list[str]]:
        said: list[str] = []
        state = DeviceState(tmp_path / "device0")
        try:
            return Device(state, ANYBODY._replace(accepts_data=accepts_data), change(held), world(said)), said
        finally:
            state.close()

    return again


def brighter(data: Data) -> Data:
    return data._replace(samples=replace(data.samples, x=data.samples.x + np.array(1, data.samples.x.dtype)))


def swapped(data: Data) -> Data:
    """A training sample is a test sample now, and a test sample one to train on."""
    assert data.split is not None
    train, test = data.split.train.copy(), data.split.test.copy()
    train[0], test[0] = test[0], train[0]
    return data._replace(split=replace(data.split, train=train, test=test))


def same(data: Data) -> Data:
    return Data(data.samples, data.split)


def test_the_same_samples_go_on_without_a_word(opened: Any) -> None:
    assert opened(same)[1] == []


@pytest.mark.parametrize("change", [brighter, swapped])
def test_other_samples_are_refused_or_accepted(change: Callable[[Data], Data], opened: Any) -> None:
    with pytest.raises(RequestError, match=r"client 0 in run .* other samples than --data has now: .* --accept-data"):
        opened(change)
    _, said = opened(change, accepts_data=True)
    assert [line.partition(": ")[0] for line in said] == [
        "client 0 in run run-of-the-test continues with samples other than those that it has trained on"
    ]
    assert opened(change)[1] == []  # accepted once
    with pytest.raises(RequestError, match="other samples"):
        opened(same)


def test_a_directory_of_before_says_once_that_it_has_no_digest(
    make: Callable[..., Device], server: ScriptedServer, opened: Any, tmp_path: Path
) -> None:
    state = DeviceState(tmp_path / "device0")
    assert state.enrolment is not None
    state.enrol(state.enrolment._replace(trains_on=None))
    state.close()
    _, said = opened(brighter)
    assert len(said) == 1
    assert "keeps no SHA-256 of the samples of client 0" in said[0]
    assert opened(brighter)[1] == []


def test_the_command_refuses_before_it_trains_and_takes_the_option(
    server: ScriptedServer, partitions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of client 0, then that of client 1 in its place."""

    def client(number: int, listener: Listener, *more: str) -> int:
        data, state = str(partition_file(partitions, number)), str(tmp_path / "state")
        return main(["client", "--server", listener.address, "--id", "0", "--state", state, "--data", data, *more])

    with Listener(server) as listener:
        assert client(0, listener) == 0
        capsys.readouterr()
        assert client(1, listener) == 2
        assert "edgefl client: client 0 in run" in capsys.readouterr().err


def test_an_enrolled_device_converses_as_before(make: Callable[..., Device], server: ScriptedServer) -> None:
    device = make()
    cut(device, server, "handle Train")
    again = make()
    converse(again, server)
    assert again.finished == "all rounds are done"

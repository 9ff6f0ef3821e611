"""The federation of the tests of devices, and devices that can be opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli.cli import main
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import DeviceState
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.federation import Federation
from edgefl.learning.learner import MakeLearner
from tests.deployment.device.device_cases import (
    ANYBODY,
    EXPERIMENT,
    METHODS,
    scripted,
    world,
)
from tests.deployment.device.device_server import ScriptedServer


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(EXPERIMENT)


@pytest.fixture(scope="module")
def partitions(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dealt")
    for client in range(3):
        write_partition(partition_file(directory, client), federation, client)
    return directory


@pytest.fixture
def make(federation: Federation, partitions: Path, tmp_path: Path) -> Callable[..., Device]:
    """Return a function that opens a device's directory by number. A second opening stands for a process that died."""
    opened: dict[int, DeviceState] = {}

    def opening(
        place: int = 0,
        data: int = 0,
        profile: DeviceProfile = ANYBODY,
        learner: MakeLearner | None = None,
        **rest: Any,
    ) -> Device:
        if place in opened:
            opened[place].close()
        opened[place] = DeviceState(tmp_path / f"device{place}")
        samples = Data(*read_partition(partition_file(partitions, data)))
        return Device(opened[place], profile, samples, world(**rest), learner)

    return opening


@pytest.fixture
def server(federation: Federation) -> ScriptedServer:
    """Two rounds of FedSPU at keep 0.25 for client 0, and the evaluation of the initial global model."""
    return scripted(federation, METHODS["fedspu-es"], [1, 2])


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, and certificates for 127.0.0.1."""
    pytest.importorskip("cryptography", reason="certificates are made with the optional package cryptography")
    directory = tmp_path_factory.mktemp("trust")
    assert main(["keys", str(directory), "--clients", "2", "--host", "127.0.0.1"]) == 0
    return directory

"""The frozen part of a model goes to a device once: later runs, other parts, broken downloads and damaged files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgefl.deployment.device.base_store import BaseStore
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.experiment.client_dataset import partition_file, read_partition
from edgefl.experiment.federation import Federation
from edgefl.models.neurons.trained_part import with_trained
from edgefl.protocol.wire.messages import ModelRequest, PartialModelRequest
from edgefl.protocol.wire.model_message import pack
from edgefl.protocol.wire.model_parts import frozen_parts, held_ranges
from tests.deployment.device.device_cases import ANYBODY, METHODS, cut, initial, scripted, world
from tests.deployment.device.device_server import ScriptedServer, converse

BODY = 4 * (288 + 18432 + 5 * 32 + 5 * 64)  # bytes of both convolutions with their biases and norms
LAST = 4 * (18432 + 5 * 64)  # bytes of the second convolution with its bias and norm


def serving(federation: Federation, train: str, run: str) -> ScriptedServer:
    """A server of the digits model with this trained part, for the first round of FedAvg."""
    graph = with_trained(federation.graph, train)
    server = scripted(replace(federation, graph=graph), METHODS["fedavg"], [1])
    server.run, server.parts = run, frozen_parts(graph, server.model)
    return server


def frozen_bytes(server: ScriptedServer) -> int:
    return sum(part.size for part in server.parts)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    found = StateDirectory(tmp_path / "state")
    yield found
    found.close()


@pytest.fixture
def device(directory: StateDirectory, partitions: Path) -> Callable[..., Device]:
    """Return a function that opens the device in a run, as a new process does."""

    def opening(server: ScriptedServer, said: list[str] | None = None) -> Device:
        samples = Data(*read_partition(partition_file(partitions, 0)))
        return Device(directory.open(server.run, None), ANYBODY, samples, world(said))

    return opening


def download(device: Device, server: ScriptedServer) -> tuple[Any, int]:
    """Take part in the run, and return the request for the model and the bytes that the device received."""
    connection = converse(device, server)
    assert device.finished is not None
    assert pack(device._state.model()) == server.model
    request = next(each for each in server.received if isinstance(each, ModelRequest | PartialModelRequest))
    return request, connection.received_bytes


def test_a_later_run_fetches_the_trained_part_alone(federation: Federation, device: Any) -> None:
    first, second = (serving(federation, "head", run) for run in ("one", "two"))
    request, whole = download(device(first), first)
    assert request == ModelRequest(0)
    said: list[str] = []
    request, rest = download(device(second, said), second)
    assert isinstance(request, PartialModelRequest)
    assert frozen_bytes(second) == BODY
    assert BODY < whole - rest < BODY + 100  # and the frames around it
    assert f"{BODY} of {BODY} bytes of the model's frozen part lie in" in said[0]


def test_another_trained_part_of_the_base_shares_its_parameters(federation: Federation, device: Any) -> None:
    """A run of the last block leaves conv1 and its norm. A run of the head then lacks conv2 and its norm."""
    first, second = serving(federation, "last:1", "one"), serving(federation, "head", "two")
    download(device(first), first)
    request, _ = download(device(second), second)
    held = sum(end - start for start, end in held_ranges(second.parts, request.held))
    assert held == frozen_bytes(first) == BODY - LAST
    third = serving(federation, "head", "three")
    request, _ = download(device(third), third)
    assert sum(end - start for start, end in held_ranges(third.parts, request.held)) == BODY


def test_a_restarted_device_has_its_model(federation: Federation, device: Any) -> None:
    server = serving(federation, "head", "one")
    held = device(server)
    cut(held, server, "handle Train")
    converse(device(server), server)
    assert not any(isinstance(each, ModelRequest | PartialModelRequest) for each in server.received)


def test_a_download_in_parts_that_breaks_off_goes_on(federation: Federation, device: Any) -> None:
    first, second = serving(federation, "last:1", "one"), serving(federation, "head", "two")
    download(device(first), first)
    held = device(second)
    cut(held, second, "handle Train")
    (held._state.path / "model.bin").unlink()
    half = len(second.model) // 2  # within conv2.weight, which the server sends
    (held._state.path / "model.part").write_bytes(second.model[:half])
    request, _ = download(device(second), second)
    assert (type(request), request.offset) == (PartialModelRequest, half)


def test_a_model_that_lies_on_the_device_is_not_downloaded(
    federation: Federation, device: Any, directory: StateDirectory
) -> None:
    server = serving(federation, "head", "one")
    BaseStore(directory.path / "base").keep_model(initial(federation))
    request, received = download(device(server), server)
    assert sum(end - start for start, end in held_ranges(server.parts, request.held)) == BODY
    assert received < 5 * 4 * (256 * 10 + 10)  # the head with the model, the round, the evaluation and the graph


def test_a_damaged_base_is_fetched_anew(federation: Federation, device: Any, directory: StateDirectory) -> None:
    first, second = (serving(federation, "head", run) for run in ("one", "two"))
    download(device(first), first)
    (file,) = (directory.path / "base").iterdir()
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    request, _ = download(device(second), second)
    assert request == ModelRequest(0)
    (file,) = (directory.path / "base").iterdir()
    third = serving(federation, "head", "three")
    assert isinstance(download(device(third), third)[0], PartialModelRequest)


def test_a_server_of_before_lists_nothing(federation: Federation, device: Any) -> None:
    """The device then neither keeps parts nor asks for some."""
    for run in ("one", "two"):
        server = serving(federation, "head", run)
        server.parts = []
        assert download(device(server), server)[0] == ModelRequest(0)


def test_a_full_disk_costs_the_store_alone(federation: Federation, device: Any, directory: StateDirectory) -> None:
    server, said = serving(federation, "head", "one"), list[str]()
    (directory.path / "base").write_bytes(b"a file where the folder should be")
    download(device(server, said), server)
    assert "later runs fetch the frozen part again" in said[-1]

"""One device of a served run trains with torch, the others with kernels: a real server, real sockets."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, ServerAddress
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.deployment.device.run_query import RunInquiry
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.run_json import open_run
from edgefl.learning.learner import MakeLearner
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.torch import TorchLearner
from tests.server.processes import lines, start, until
from tests.smooth import CLIENTS, assert_close, federation, one_torch_thread  # noqa: F401

TORCH = 1  # the client whose learner is torch's


def talk(address: str, path: Path, client: int, make: MakeLearner | None, model_bytes: int = 1 << 20) -> None:
    """A device, until the run is over. It takes models of up to `model_bytes`."""
    server = ServerAddress.parse(address)
    world = DeviceEnvironment(lambda line: None, lambda failures: time.sleep(0.1), time.perf_counter)
    said = (None, secrets.token_bytes, world, 60.0)
    profile = DeviceProfile(client, None, 1.0, model_bytes)
    run = DeviceSocket(server, RunInquiry(client, None), *said).run()
    state = StateDirectory(path / "devices" / str(client)).open(run, None)
    device = Device(state, profile, Data(*read_partition(partition_file(path / "shares", client))), world, make)
    DeviceSocket(server, device, *said).run()


@pytest.mark.parametrize("method", ["fedspu", "fedspa"])
def test_torch_and_kernels_train_together(method: str, tmp_path: Path) -> None:
    options = (("density", 0.4),) if method == "fedspa" else ()
    experiment, model, clients = federation(tmp_path, (method,), options=options, per_round=CLIENTS)
    served = tmp_path / "served"
    open_run(served, experiment.to_json(), model)
    (tmp_path / "shares").mkdir()
    for client in range(CLIENTS):
        write_partition(partition_file(tmp_path / "shares", client), clients, client)
    with ExitStack() as stack:
        server = start(stack, "serve", "--resume", str(served), "--port", "0")
        address = until(lines(server), "listening on").split()[-1]
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        makes = [TorchLearner if client == TORCH else None for client in range(CLIENTS)]
        for over in [pool.submit(talk, address, tmp_path, client, make) for client, make in enumerate(makes)]:
            over.result(timeout=120)
        assert server.wait(timeout=60) == 0
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()[method], clients, experiment.settings(1), journal)
    expected = list(journal.metrics())
    journal.close()
    found = run_history.final_state(served)
    assert found.values == state.values
    for group, arrays in state.arrays.items():
        assert_close(found.arrays[group], arrays)
    assert not all(np.array_equal(found.arrays["model"][name], value) for name, value in state.arrays["model"].items())
    names = ("client", "status", "down", "up")
    payloads = [
        [[[c.get(name) for name in names] for c in log_record["clients"]] for log_record in each]
        for each in (run_history.metrics(served), expected)
    ]
    assert payloads[0] == payloads[1]

"""A served run from its first round to its last: a server in a process, and its devices in threads, on loopback."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.cluster import EDGEFL
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_socket import DeviceSocket, ServerAddress
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.deployment.device.run_query import RunInquiry
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.learning.learner import MakeLearner
from edgefl.models.graph import Model
from tests.server.processes import lines, start, until


def served_run(
    path: Path,
    experiment: Experiment,
    model: Model,
    clients: Federation,
    *,
    makes: Sequence[MakeLearner | None] = (),
    model_bytes: int = 1 << 20,
    words: Sequence[str] = (),
    program: Sequence[str] = EDGEFL,
) -> tuple[Path, str]:
    """Serve a run to a device for each client. Return the run's directory, and what the server said while it ran.

    makes        what makes the learner of each client. (): the kernels' learner
    model_bytes  bytes of the largest model that a device takes
    words        arguments before the command
    program      what Python runs in place of edgefl
    """
    served, count = path / "served", experiment.clients
    open_run(served, experiment.to_json(), model)
    (path / "shares").mkdir()
    for client in range(count):
        write_partition(partition_file(path / "shares", client), clients, client)
    with ExitStack() as stack:
        server = start(stack, *words, "serve", "--resume", str(served), "--port", "0", program=program)
        said = lines(server)
        address = until(said, "listening on").split()[-1]
        pool = stack.enter_context(ThreadPoolExecutor(count))
        chosen = makes or [None] * count
        for over in [pool.submit(_talk, address, path, at, make, model_bytes) for at, make in enumerate(chosen)]:
            over.result(timeout=120)
        assert server.wait(timeout=60) == 0
        return served, "".join(said)


def _talk(address: str, path: Path, client: int, make: MakeLearner | None, model_bytes: int) -> None:
    """Be a device until the run is over."""
    server = ServerAddress.parse(address)
    world = DeviceEnvironment(lambda line: None, lambda failures: time.sleep(0.1), time.perf_counter)
    said = (None, secrets.token_bytes, world, 60.0)
    profile = DeviceProfile(client, None, 1.0, model_bytes)
    run = DeviceSocket(server, RunInquiry(client, None), *said).run()
    state = StateDirectory(path / "devices" / str(client)).open(run, None)
    device = Device(state, profile, Data(*read_partition(partition_file(path / "shares", client))), world, make)
    DeviceSocket(server, device, *said).run()

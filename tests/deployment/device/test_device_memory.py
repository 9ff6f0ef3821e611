"""The resident memory of a device's process, while it waits and while it trains the CIFAR model at batch 16."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import FedSPU
from edgefl.methods.rounds.exchange import evaluate_message, train_message
from edgefl.methods.task import Task
from edgefl.models.graph import Model, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import Enrol, Evaluated, Message, Trained, Welcome
from edgefl.protocol.wire.model_message import digest, pack
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer

IDLE_BYTES, TRAINING_BYTES = 50e6, 75e6
METHOD = FedSPU(keep=(1.0,), per_round=1, epochs=1, batch=16)
STATUS = "/proc/{}/status"


def server(root: Path) -> MeteredServer:
    """Two rounds of the whole model on 500 images of noise, and an evaluation."""
    graph = architectures.build("fedspu_cifar", (3, 32, 32), 10)
    spec, params = ModelSpec.of(graph), graph.init(rng.stream(1, rng.INIT))
    task = Task(spec, 1, 1)
    state = METHOD.start(task, params)
    script = {r: train_message(METHOD.plan(task, state, r)[0], spec, "float32") for r in (1, 2)}
    model = pack(Model(graph, params))
    options = {"keep": [1.0], "per_round": 1, "epochs": 1, "batch": 16}
    welcome = Welcome(0, 1, 1, "fedspu", options, "float32", (0.7, 0.1), len(model), digest(model), "cross-entropy")
    noise = (rng.stream(1, rng.DATA).uniform(500 * 3072) * 256).astype(np.uint8)
    np.savez(root / "data.npz", x=noise.reshape(500, 3, 32, 32), y=np.arange(500) % 10, classes=10)
    return MeteredServer(welcome, model, script, evaluate_message(2, METHOD, state, spec))


class MeteredServer(ScriptedServer):
    """Reads the memory of its device's process when a message of it arrives."""

    def meter(self, process: int) -> None:
        self._process = process
        self.resident: dict[type[Message], float] = {}
        self.most = 0.0

    def answers(self, message: Message) -> Iterator[Message]:
        lines = Path(STATUS.format(self._process)).read_text().splitlines()
        found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Vm")}
        self.resident[type(message)] = found["VmRSS"]
        self.most = found["VmHWM"]
        yield from super().answers(message)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from Linux's /proc")
def test_a_device_stays_below_its_bars(tmp_path: Path) -> None:
    metered = server(tmp_path)
    listener = Listener(metered)
    command = [sys.executable, "-m", "edgefl", "client", "--server", listener.address]
    command += ["--state", str(tmp_path / "state"), "--data", str(tmp_path / "data.npz")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    metered.meter(process.pid)
    with listener:
        assert process.wait(timeout=60) == 0
    assert list(metered.replies) == [1, 2]
    assert 10e6 < metered.resident[Enrol] < IDLE_BYTES
    assert metered.resident[Trained] < TRAINING_BYTES
    assert metered.most < TRAINING_BYTES
    assert metered.resident[Evaluated] < TRAINING_BYTES

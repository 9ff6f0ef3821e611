"""MobileNetV2 with a frozen backbone: a real server and two devices on loopback send the classifier alone, as simulate
does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from edgefl.cli.status import examine
from edgefl.experiment import model_file
from edgefl.experiment.assembly import assemble
from edgefl.experiment.settings import Experiment
from edgefl.models.graph import Model
from edgefl.protocol.wire.model_message import pack
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.torch import from_torch
from tests.mobilenet import frozen_backbone
from tests.server.socket_run import served_run

CLIENTS, ROUNDS = 2, 2
CLASSIFIER = 4 * (1280 * 10 + 10)  # 51,240 bytes
HEADER = 44  # of a payload of two blocks


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("frozen")
    draw = np.random.default_rng(3)
    x = draw.integers(0, 256, (24, 3, 32, 32)).astype(np.uint8)
    np.savez(path / "made.npz", x=x, y=np.arange(24) % 10)
    model = from_torch(frozen_backbone(10), torch.zeros(1, 3, 32, 32))
    experiment = Experiment(
        ("fedavg",), str(path / "made.npz"), model_file.name_of(model), clients=CLIENTS, partition="iid",
        per_round=CLIENTS, rounds=ROUNDS, eval_every=1, epochs=1, batch=4, lr=0.1,
    )  # fmt: skip
    return path, experiment, model, assemble(experiment, None, model)


@pytest.fixture(scope="module")
def simulated(given):
    path, experiment, _, clients = given
    journal = Journal(path / "simulated")
    state = simulate(experiment.algorithms()["fedavg"], clients, experiment.settings(1), journal)
    records = list(journal.metrics())
    journal.close()
    return state, records


def sizes(records):
    """Bytes down and up of each client in each round."""
    return [[(each["down"], each["up"]) for each in record["clients"]] for record in records]


def test_simulate_sends_the_classifier_alone(given, simulated) -> None:
    _, _, model, _ = given
    state, records = simulated
    assert sizes(records) == [[(CLASSIFIER + HEADER, CLASSIFIER + HEADER)] * CLIENTS] * ROUNDS
    moved = {name for name, value in state.arrays["model"].items() if not np.array_equal(value, model.params[name])}
    assert moved == {"classifier.1.weight", "classifier.1.bias"}


def check_sockets(served: Path, clients) -> None:
    """Count what went through the sockets: payloads of rounds and evaluations, and the model once for each device."""
    last = run_history.traffic(served)[-1]
    payloads = ROUNDS * CLIENTS * (CLASSIFIER + HEADER)
    assert examine(served)["frozen_bytes"] == sum(value.nbytes for value in clients.initial().values()) - CLASSIFIER
    assert last.received - last.received_headers == payloads
    model = len(pack(Model(clients.graph, clients.initial())))
    evaluations = last.sent - last.sent_headers - payloads - CLIENTS * model
    assert evaluations == ROUNDS * CLIENTS * (CLASSIFIER + HEADER)


def test_a_server_and_two_devices_send_the_classifier_alone(given, simulated, tmp_path: Path) -> None:
    _, experiment, model, clients = given
    state, _ = simulated
    served, _ = served_run(tmp_path, experiment, model, clients, model_bytes=1 << 24)
    assert sizes(run_history.metrics(served)) == [[(CLASSIFIER + HEADER, CLASSIFIER + HEADER)] * CLIENTS] * ROUNDS
    check_sockets(served, clients)
    found = run_history.final_state(served).arrays["model"]
    for name, value in state.arrays["model"].items():
        assert found[name].tobytes() == value.tobytes(), name

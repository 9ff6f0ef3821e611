"""Served runs of heads of several layers and of a regression, which equal the simulated runs also after restarts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgefl import rng
from edgefl.experiment.federation import Federation
from edgefl.learning import Samples
from edgefl.learning.losses import Loss
from edgefl.methods import PFLEGO, FedPer
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.task import Task
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from tests.server import served
from tests.server.served import CLIENTS, RULES, World
from tests.server.test_served import Expected

DEEP = Graph(
    (3,),
    (
        Node("fc1", Linear(3, 8), ("input",)),
        Node("relu", ReLU(), ("fc1",)),
        Node("fc2", Linear(8, 5), ("relu",)),
        Node("relu2", ReLU(), ("fc2",)),
        Node("fc3", Linear(5, 3), ("relu2",)),
    ),
)
METHODS = {
    "pflego": PFLEGO(per_round=3, tau=3, beta=0.3, rho=0.2, head_layers=2),
    "fedper": FedPer(per_round=3, epochs=1, batch=4, lr=0.1, head_layers=2),
}


def of_numbers(samples: Samples) -> Samples:
    """Return the samples with three numbers as their targets."""
    y = rng.stream(2, rng.DATA).uniform(3 * len(samples.y)).reshape(-1, 3).astype(np.float32)
    return Samples(samples.x, y, loss=Loss.parse("mse"))


@pytest.mark.parametrize("name", METHODS)
def test_a_served_run_equals_simulate(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method: Algorithm = METHODS[name]
    data, clients = of_numbers(served.FEDERATION.data), served.FEDERATION.clients
    examples = sum(len(split.train) for split in clients)
    spec = ModelSpec.of(DEEP)
    about = Task(spec, CLIENTS, seed=1, rounds=RULES.rounds, graph=DEEP, loss=data.loss, outputs=3, examples=examples)
    given = {
        "GRAPH": DEEP,
        "SPEC": spec,
        "INITIAL": DEEP.init(rng.stream(1, rng.INIT)),
        "TASK": about,
        "FEDERATION": Federation(DEEP, data, clients, seed=1),
    }
    for what, value in given.items():
        monkeypatch.setattr(served, what, value)
    expected, world = Expected(tmp_path / "simulated", method), World(tmp_path / "served", method)
    world.finish()
    expected.check(world)
    for number in (5, 12):
        again = World(tmp_path / str(number), method)
        while len(again.saved) < number:
            again.steps()[-1]()
        again.restart_server()
        again.finish()
        expected.check(again)

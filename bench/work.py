"""The federations that the benches of a served run work on: a model, its data, and the experiment around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgefl.experiment.assembly import assemble
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.models.graph import Graph, Node, architectures
from edgefl.models.graph.operations import Flatten, Linear, ReLU

SMALL = Graph(  # 985 parameters on the packaged digits, 8x8
    (1, 8, 8),
    (
        Node("flatten", Flatten(), ("input",)),
        Node("hidden", Linear(64, 13), ("flatten",)),
        Node("relu", ReLU(), ("hidden",)),
        Node("fc", Linear(13, 10), ("relu",)),
    ),
)
CIFAR_SAMPLES = 500  # samples of a device, as if 100 devices shared CIFAR-10


def experiment(clients: int, rounds: int, keep: tuple[float, ...] = Experiment.keep) -> Experiment:
    """Return FedSPU with every client in every round, one epoch at batch 16, evaluated at the end."""
    return Experiment(
        methods=("fedspu",),
        partition="iid",
        clients=clients,
        per_round=clients,
        rounds=rounds,
        epochs=1,
        keep=keep,
        eval_every=rounds,
    )


def small(experiment: Experiment) -> Federation:
    """Return the digits with a model of about a thousand parameters."""
    return replace(assemble(experiment), graph=SMALL)


def cifar(experiment: Experiment) -> Federation:
    """Return FedSPU's CNN for CIFAR-10 on images of noise."""
    values, graph = (
        np.random.RandomState(1),
        architectures.build("fedspu_cifar", *architectures.EXAMPLES["fedspu_cifar"]),
    )
    count = CIFAR_SAMPLES * experiment.clients
    images = values.randint(0, 256, (count, *graph.input_shape), np.uint8)
    rows = np.arange(count, dtype=np.int32).reshape(experiment.clients, 10, -1)
    clients = tuple(Split(each[:8].ravel(), each[8].ravel(), each[9].ravel()) for each in rows)
    return Federation(graph, Samples(images, values.randint(0, 10, count, np.int32), 1 / 255), clients, 1)


WORKS: dict[str, Callable[[Experiment], Federation]] = {"small": small, "cifar": cifar}

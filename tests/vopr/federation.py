"""The small federation of a simulation: a model of two matrices, 48 parameters, and a few samples for each client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np

from edgefl import rng
from edgefl.deployment.device.device_model import Data
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.protocol.wire import model_message

SAMPLES, FEATURES, CLASSES = 12, 3, 3  # of each client
MAX_STALENESS = 2  # rounds, in asynchronous rounds
PIECE_BYTES = 100  # of the model in a message. So a download has six messages, as that of a model of 180 kB has
GRAPH = Graph(
    (FEATURES,),
    (
        Node("fc1", Linear(3, 8, bias=False), ("input",)),
        Node("relu", ReLU(), ("fc1",)),
        Node("fc2", Linear(8, 3, bias=False), ("relu",)),
    ),
)


@dataclass(frozen=True)
class Members:
    """The experiment with its samples, for the server and for every device."""

    assembled: AssembledExperiment

    def data(self, client: int) -> Data:
        """Return the samples of one device."""
        samples = self.assembled.federation.data
        rows = slice(client * SAMPLES, (client + 1) * SAMPLES)
        split = self.assembled.federation.clients[client]
        own = (part - client * SAMPLES for part in (split.train, split.validation, split.test))
        return Data(Samples(samples.x[rows], samples.y[rows]), Split(*own))


def made(seed: int, method: str, clients: int, per_round: int, rounds: int, buffer: int = 0) -> Members:
    """Return a federation whose samples and model follow from the seed. A `buffer` makes its rounds asynchronous."""
    stream = rng.stream(seed, rng.DATA)
    y = stream.below(np.full(clients * SAMPLES, CLASSES)).astype(np.int32)
    x = stream.uniform(FEATURES * len(y)).astype(np.float32).reshape(-1, FEATURES)
    x[np.arange(len(y)), y] += 1
    experiment = Experiment(
        methods=(method,),
        clients=clients,
        per_round=per_round,
        rounds=rounds,
        eval_every=max(2, rounds // 3),
        evaluate_first=False,
        seed=seed,
        keep=(0.5, 1.0),
        epochs=1,
        batch=4,
        lr=0.1,
        buffer=min(buffer, per_round),
        max_staleness=MAX_STALENESS,
    )
    federation = Federation(GRAPH, Samples(x, y), tuple(map(_split, range(clients))), seed)
    return Members(AssembledExperiment.of(experiment, federation))


@contextmanager
def in_pieces() -> Iterator[None]:
    """Let the model come in several pieces for the length of the with block."""
    with mock.patch.object(model_message, "CHUNK_BYTES", PIECE_BYTES):
        yield


def _split(client: int) -> Split:
    first = client * SAMPLES
    train, validation, test = np.split(np.arange(first, first + SAMPLES, dtype=np.int32), [7, 9])
    return Split(train, validation, test)

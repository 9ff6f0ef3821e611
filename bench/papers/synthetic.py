"""Synthetic(alpha, beta) as a federation: 60 features, 10 classes, a softmax model, clients of unequal size.

Labels are the argmax of W_k' x + b_k, with all W and b ~ N(0, 1). With alpha = 0 the clients have one W and b, and with
alpha > 0 each client has its own. Inputs are x ~ N(v_k, diag(j^-1.2)). With beta = 0 all v_k are 0, and with beta > 0
v_k ~ N(B_k, 1) and B_k ~ N(0, beta). So (0, 0) is homogeneous, as FedUmf's figure A5 says. A client has 50 samples and
a log-normal number more, of which nine tenths are for training.

FedProx's paper also moves the mean of W_k and b_k by u_k ~ N(0, alpha), one number for all classes. It is left out,
because it adds the same to the score of every class and changes no label.

Source  Li et al., "Federated optimization in heterogeneous networks" (MLSys 2020), 5.1, and its IID data
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.models.graph import INPUT, Graph
from edgefl.models.graph.graph import Node
from edgefl.models.graph.operations import Linear

FEATURES, CLASSES = 60, 10
LEAST, SIZES = 50, (4.0, 2.0)  # samples of a client: the least, and the log-normal number more
TRAIN = 0.9


class Labelling(NamedTuple):
    """The linear model that says the labels."""

    weights: np.ndarray
    bias: np.ndarray

    @staticmethod
    def drawn(values: np.random.RandomState) -> Labelling:
        return Labelling(values.normal(0, 1, (FEATURES, CLASSES)), values.normal(0, 1, CLASSES))

    def of(self, x: np.ndarray) -> np.ndarray:
        return (x @ self.weights + self.bias).argmax(1).astype(np.int32)


def name_of(alpha: float, beta: float) -> str:
    """Return the data's name in an experiment."""
    return f"synthetic-{alpha:g}-{beta:g}"


def federation(experiment: Experiment, data_dir: Path | None) -> Federation:
    """Return the federation whose data an experiment names. The seed draws the data. No file is read."""
    alpha, beta = map(float, experiment.data.split("-")[1:])
    common, x, y, clients, first = Labelling.drawn(np.random.RandomState(experiment.seed)), [], [], [], 0
    for client in range(experiment.clients):
        values = np.random.RandomState([experiment.seed, client])
        labelling, inputs = Labelling.drawn(values), drawn_inputs(values, beta)
        ids = np.arange(first, first + len(inputs), dtype=np.int32)
        cut = int(TRAIN * len(ids))
        clients.append(Split(ids[:cut], np.zeros(0, np.int32), ids[cut:]))
        first += len(ids)
        x.append(inputs)
        y.append((labelling if alpha else common).of(inputs))
    graph = Graph((FEATURES,), (Node("fc", Linear(FEATURES, CLASSES), (INPUT,)),))
    return Federation(graph, Samples(np.concatenate(x), np.concatenate(y)), tuple(clients), experiment.seed)


def drawn_inputs(values: np.random.RandomState, beta: float) -> np.ndarray:
    """Draw a client's inputs. beta is a variance."""
    count = LEAST + int(values.lognormal(*SIZES))
    mean = values.normal(values.normal(0, beta**0.5), 1, FEATURES) if beta else np.zeros(FEATURES)
    deviation = np.arange(1, FEATURES + 1) ** -0.6  # the root of j^-1.2
    return (mean + deviation * values.normal(0, 1, (count, FEATURES))).astype(np.float32)

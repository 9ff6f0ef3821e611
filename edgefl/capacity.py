"""The capacity tiers of an experiment's clients: who has which share of neurons, and what training at it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgefl.algorithms import FedSPU
from edgefl.experiment import Experiment
from edgefl.graph import Graph
from edgefl.memory import Training, estimate
from edgefl.spec import ModelSpec


@dataclass(frozen=True)
class Tiers:
    """What a report must know of the model and the clients.

    scalars       of the model, statistics included
    keep          the capacity tier of every client, by id
    memory_bytes  of a training step at every tier, by the account `exact`
    """

    scalars: int
    keep: Sequence[float]
    memory_bytes: dict[float, int]


def tiers_of(experiment: Experiment, graph: Graph) -> Tiers:
    """The tiers that FedSPU gives the experiment's clients, for other methods to be compared at."""
    spec, method = ModelSpec.of(graph), FedSPU(keep=experiment.keep)
    keep = [method.tier(client, experiment.clients) for client in range(experiment.clients)]
    steps = {p: Training(experiment.model, graph, experiment.batch, keep=p) for p in set(keep)}
    memory = {p: estimate("exact", step).total for p, step in steps.items()}
    return Tiers(sum(math.prod(param.shape) for param in spec.params.values()), keep, memory)

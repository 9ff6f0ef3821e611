"""The capacity tiers of an experiment's clients: the share of neurons of each client, and the cost of training at each
share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgefl.experiment.device_models.device_assignment import fleet_of
from edgefl.experiment.settings import Experiment
from edgefl.learning.losses import CrossEntropy, Loss
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.methods.fedspu_cached import FedSPUCached
from edgefl.methods.sampling import tier
from edgefl.methods.task import Task
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec


@dataclass(frozen=True)
class Tiers:
    """The facts about model and clients that a report needs.

    scalars        number of scalars in the model, statistics included
    keep           the capacity tier of every client, by id
    memory_bytes   memory of a training step at every tier, by the account `exact`. Behind a cut it has the results
                   of one batch
    densities      density of the masks, by the names of the methods that have masks
    mask_bytes     memory of a training step by the account `exact`, of methods whose masks have one density by ERK
    flops          operations of a client's round, from a method and a number of training samples. None: not known
    device_memory  bytes of memory of modelled devices, by name, if their profiles state it
    frozen_bytes   bytes of the frozen parameters
    """

    scalars: int
    keep: Sequence[float]
    memory_bytes: dict[float, int]
    densities: Mapping[str, float] = field(default_factory=dict)
    mask_bytes: Mapping[str, int] = field(default_factory=dict)
    flops: Callable[[str, int], float | None] = lambda method, examples: None
    device_memory: Mapping[str, int] = field(default_factory=dict)
    frozen_bytes: int = 0


def tiers_of(experiment: Experiment, graph: Graph, loss: Loss | None = None) -> Tiers:
    """Return the tiers of the experiment's clients. Methods without tiers are compared at these tiers, too.

    loss  the loss that is minimised. None: plain cross-entropy
    """
    spec = ModelSpec.of(graph)
    keep = [tier(experiment.keep, client, experiment.clients) for client in range(experiment.clients)]
    methods = experiment.algorithms()
    loss = loss or CrossEntropy()
    first = next((each for name, each in methods.items() if name.startswith("fedspu")), None)
    step = TrainingConfiguration(experiment.model, graph, experiment.batch, terms=_terms(first), loss=loss)
    task = Task(spec, experiment.clients, experiment.seed, graph=graph)
    cuts = {p: first.offer(task, keep.index(p)).cut if isinstance(first, FedSPUCached) else "" for p in set(keep)}
    steps = {p: replace(step, keep=p, examples=experiment.batch if cut else None, cut=cut) for p, cut in cuts.items()}
    memory = {p: estimate("exact", step).total for p, step in steps.items()}
    densities = {name: found for name, method in methods.items() if (found := getattr(method, "density", 0))}
    scalars = sum(math.prod(param.shape) for param in spec.params.values())
    masked = {name: methods[name] for name in densities if getattr(methods[name], "distribution", None) == "erk"}
    return Tiers(
        scalars,
        keep,
        memory,
        densities,
        {name: _mask_bytes(experiment, graph, method, loss) for name, method in masked.items()},
        lambda name, examples: methods[name].flops(graph, examples),
        _device_memory(experiment),
        4 * spec.frozen_scalars - graph.quantized_saving,
    )


def _device_memory(experiment: Experiment) -> dict[str, int]:
    found = fleet_of(experiment.devices).devices if experiment.devices else ()
    return {each.name: each.profile.memory_bytes for each in found if each.profile.memory_bytes}


def _mask_bytes(experiment: Experiment, graph: Graph, method: Any, loss: Loss) -> int:
    step = TrainingConfiguration(
        experiment.model, graph, method.batch, "sparse", method.density, terms=_terms(method), loss=loss
    )
    return estimate("exact", step).total


def _terms(method: Any) -> Terms:
    """Return the terms of a method's step that plain SGD does not have. The terms are empty if there is no method."""
    return Terms() if method is None else Terms.of(method.local_optimizer(1))

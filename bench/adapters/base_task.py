"""The class BaseTask: a comparison of bases in fewer bits. A base is trained in float32 on one part of the data. A
federation trains its adapters on another part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgefl import rng
from edgefl.learning import Adam, GraphLearner, Samples
from edgefl.learning.batches import Minibatches
from edgefl.models import add_adapters
from edgefl.models.graph import Graph, Model, model_files

RANK = 8


class Parts(NamedTuple):
    """The samples of one seed.

    others  samples on which the base is trained
    own     arrays of the federation's clients, as edgefl.simulate takes them
    test    samples that no training sees
    """

    others: Samples
    own: Mapping[str, Any]
    test: Samples


class BaseTask(NamedTuple):
    """One comparison of bases.

    name      name in the record
    graph     function that returns the architecture
    parts     function of a seed that returns the samples
    targets   layers that get adapters
    batch     samples of a step that trains the base
    rates     rate of Adam in each epoch that trains the base
    settings  settings of edgefl.simulate for the adapters
    """

    name: str
    graph: Callable[[], Graph]
    parts: Callable[[int], Parts]
    targets: str
    batch: int
    rates: tuple[float, ...]
    settings: Mapping[str, Any]

    def all_settings(self) -> dict[str, Any]:
        """Return what decides a row beside its seed, as JSON values."""
        base = {"rank": RANK, "targets": self.targets, "base_batch": self.batch, "base_rates": list(self.rates)}
        return base | dict(self.settings)


def adapted(task: BaseTask, seed: int, others: Samples, folder: Path) -> Model:
    """Return the trained base with new adapters, all in float32. The folder keeps the base."""
    words = json.dumps([task.all_settings(), repr(task.graph())])
    file = folder / f"{task.name}-{seed}-{hashlib.sha256(words.encode()).hexdigest()[:12]}.safetensors"
    if not file.exists():
        model_files.save(file, _trained(task, seed, others))
    return add_adapters(model_files.load(file), rank=RANK, targets=task.targets, seed=seed)


def _trained(task: BaseTask, seed: int, others: Samples) -> Model:
    graph, draw = task.graph(), np.random.default_rng(seed)
    learner = GraphLearner(Model(graph, graph.init(rng.stream(seed, rng.INIT))))
    rows = np.arange(len(others), dtype=np.int32)
    for rate in task.rates:
        order = draw.permutation(len(rows))
        learner.fit(others, Minibatches(rows, lambda _, order=order: order, 1, task.batch), Adam(rate))
    return Model(graph, {name: value.copy() for name, value in learner.read().items()})

"""Small models that can have adapters: convolutions, an embedding, Linear layers, and a weight that is transposed."""

from __future__ import annotations

import numpy as np

from edgefl import rng
from edgefl.models import adapters_of, add_adapters
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.computed_parameters import ComputedParameter, TransposedMatrix
from edgefl.models.graph.operations import (
    Conv1d,
    Conv2d,
    Embedding,
    Flatten,
    GlobalAvgPool,
    GroupNorm,
    Linear,
    ReLU,
)

PICTURES = Graph(
    (3, 6, 6),
    (
        Node("conv", Conv2d(3, 4, (3, 3), padding=(1, 1)), (INPUT,)),
        Node("norm", GroupNorm(2, 4), ("conv",)),
        Node("relu", ReLU(), ("norm",)),
        Node("wide", Conv2d(4, 6, (3, 3), (2, 2), bias=False), ("relu",)),
        Node("depthwise", Conv2d(6, 6, (1, 1), groups=6), ("wide",)),
        Node("pool", GlobalAvgPool(), ("depthwise",)),
        Node("fc", Linear(6, 5), ("pool",)),
    ),
)
SENTENCES = Graph(
    (5,),
    (
        Node("words", Embedding(11, 6), (INPUT,)),
        Node("mixed", Conv1d(6, 7, 3, padding=1), ("words",)),
        Node("relu", ReLU(), ("mixed",)),
        Node("block.proj", Linear(7, 4), ("relu",), (("weight", "turned"),)),
        Node("flat", Flatten(), ("block.proj",)),
        Node("fc", Linear(20, 5), ("flat",)),
    ),
    computed=(ComputedParameter("turned", TransposedMatrix(7, 4), ("block.proj.weight",)),),
)
GRAPHS = {"pictures": PICTURES, "sentences": SENTENCES}


def base(name: str) -> Model:
    """Return one of the models without adapters."""
    return Model(GRAPHS[name], GRAPHS[name].init(rng.stream(1, rng.INIT)))


def adapted(name: str, rank: int = 2, alpha: float = 3.0) -> Model:
    """Return one of the models with adapters that have an effect."""
    found = add_adapters(base(name), rank=rank, alpha=alpha)
    chance = np.random.default_rng(5)
    drawn = {
        each: chance.normal(size=found.params[each].shape).astype(np.float32)
        for adapter in adapters_of(found.graph)
        for each in (adapter.down, adapter.up)
    }
    return found._replace(params={**found.params, **drawn})

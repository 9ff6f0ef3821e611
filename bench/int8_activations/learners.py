"""The three ways in which a model is evaluated here, on samples that are drawn."""

from __future__ import annotations

import numpy as np

from edgefl.learning import GraphLearner, Samples
from edgefl.models import quantize_model
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.rng import INIT, stream

FLOAT32, WEIGHTS, ACTIVATIONS = "float32", "int8 weights", "int8 activations"
SEED, CLASSES = 1, 10


def graph_of(name: str) -> Graph:
    """Return a built-in model for ten classes."""
    return build(name, EXAMPLES[name][0], CLASSES)


def learners(model: Model) -> dict[str, GraphLearner]:
    """Return a learner for each way, by its name."""
    quantized = quantize_model(model)
    return {
        FLOAT32: GraphLearner(model),
        WEIGHTS: GraphLearner(quantized),
        ACTIVATIONS: GraphLearner(quantized, int8_activations=True),
    }


def drawn(name: str, count: int) -> tuple[Model, Samples]:
    """Return a model with its first values, and samples for it."""
    graph, draw = graph_of(name), np.random.RandomState(SEED)
    x = draw.standard_normal((count, *graph.input_shape)).astype(np.float32)
    labels = draw.randint(0, CLASSES, count).astype(np.int32)
    return Model(graph, graph.init(stream(SEED, INIT))), Samples(x, labels)

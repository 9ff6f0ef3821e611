"""The states that optimizers keep beside the parameters: for whom, how long, and how many bytes.

Every backend steps.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, Adam, AdamW, FitOptions, GraphLearner
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.memory.training_setup import SEED
from edgefl.learning.optimizers import Optimizer
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import NEURONS, stream

from . import oracle
from .graphs import GRAPHS, model, samples
from .test_fit import batches_of

OPTIMIZERS: dict[str, Optimizer] = {
    "nesterov": SGD(0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": Adam(0.01, (0.9, 0.99), eps=1e-3, weight_decay=0.01, clip=1.0),
    "adamw": AdamW(0.01, eps=1e-3, weight_decay=0.1),
}
STATES = {"nesterov": 1, "adam": 2, "adamw": 2}  # for each trained value


def test_a_fit_starts_anew_whatever_was_fitted_before() -> None:
    """Velocities, moments and the count of steps: a second fit is the first one of a fresh learner."""
    graph, data, batches = GRAPHS["groupnorm"], samples(GRAPHS["groupnorm"], 11), batches_of(11, 4, epochs=2)
    for name, optimizer in OPTIMIZERS.items():
        both = GraphLearner(model(graph))
        neurons = NeuronSet.draw(both.spec, 0.5, rng.stream(2, rng.NEURONS))
        both.fit(data, batches, optimizer, FitOptions(neurons))
        fresh = GraphLearner(type(model(graph))(graph, dict(both.read())))
        for learner in (both, fresh):
            learner.fit(data, batches, optimizer, FitOptions(neurons))
        for parameter, value in fresh.read().items():
            np.testing.assert_array_equal(both.read()[parameter], value, err_msg=f"{name}: {parameter}")


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
def test_steps_of_every_backend_equal_torch(backend: str) -> None:
    for name, optimizer in OPTIMIZERS.items():
        graph = GRAPHS["groupnorm"]
        learner, data, batches = GraphLearner(model(graph), backend), samples(graph, 8), batches_of(8, 4)
        neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(2, rng.NEURONS))
        blocks = neurons.blocks(learner.spec, kinds=("learn",))
        expected, _ = oracle.train(graph, learner.read(), data, batches, optimizer, blocks)
        learner.fit(data, batches, optimizer, FitOptions(neurons))
        for parameter, value in learner.read().items():
            bound = 2e-5 * np.abs(expected[parameter]).max()
            np.testing.assert_allclose(value, expected[parameter], 0, bound, err_msg=f"{name}: {parameter}")


def test_the_account_has_states_for_trained_values_alone() -> None:
    graph = GRAPHS["groupnorm"]
    for name, optimizer in OPTIMIZERS.items():
        for keep in (0.5, 1.0):
            training = TrainingConfiguration("m", graph, 4, keep=keep, examples=8, terms=Terms.of(optimizer))
            learner = GraphLearner(model(graph))
            neurons = NeuronSet.draw(learner.spec, keep, stream(SEED, NEURONS))
            learner.fit(samples(graph, 8), batches_of(8, 4), optimizer, FitOptions(None if keep == 1 else neurons))
            states = learner.memory()["states"]
            assert states == estimate("exact", training).parts["states"]
            assert states == 4 * STATES[name] * neurons.count(learner.spec), (name, keep)

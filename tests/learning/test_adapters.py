"""Low-rank adapters in learners: gradients and steps of all or some ranks are torch's in float64, and W stays."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner
from edgefl.learning.optimizers import Optimizer
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.models.adapters.adapted_graphs import GRAPHS, adapted

from . import oracle
from .graphs import samples

ROWS = np.arange(6, dtype=np.int32)
TERMS: dict[str, Optimizer] = {"momentum": SGD(0.05, momentum=0.8, weight_decay=0.05), "adam": Adam(0.01)}


@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", GRAPHS)
def test_steps_of_ranks_are_torchs_in_float64(name: str, terms: str, keep: float) -> None:
    model = adapted(name)
    graph = model.graph
    learner, data = GraphLearner(model, "reference", np.float64), samples(graph, len(ROWS), dtype=np.float64)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
    start = {key: value.copy() for key, value in learner.read().items()}
    dense = oracle.gradients(graph, dict(start), data.x, data.y)
    found = learner.gradient(data, ROWS, neurons)
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    assert found.keys() == set(learner.spec.learned) == blocks.keys()
    for parameter, (rows, cols) in blocks.items():
        expected = oracle.block(dense[parameter], rows, cols)
        np.testing.assert_allclose(found[parameter], expected, rtol=1e-9, atol=1e-12, err_msg=parameter)
    blocks |= dict.fromkeys(graph.frozen, (ROWS[:0], None))
    steps, _ = oracle.train(graph, start, data, [ROWS[:4], ROWS[2:]], TERMS[terms], blocks)
    learner.fit(data, [ROWS[:4], ROWS[2:]], TERMS[terms], FitOptions(neurons))
    for parameter, value in learner.read().items():
        np.testing.assert_allclose(value, steps[parameter], rtol=1e-9, atol=1e-9, err_msg=parameter)
    for parameter in graph.frozen:
        assert learner.read()[parameter].tobytes() == start[parameter].tobytes()


@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("name", GRAPHS)
def test_backends_take_the_steps_of_the_reference(name: str, backend: str) -> None:
    found, expected = (GraphLearner(adapted(name), each) for each in (backend, "reference"))
    for learner in (found, expected):
        learner.fit(samples(learner.graph, len(ROWS)), [ROWS], TERMS["momentum"])
    for parameter, value in expected.read().items():
        np.testing.assert_allclose(found.read()[parameter], value, rtol=2e-4, atol=2e-5, err_msg=parameter)

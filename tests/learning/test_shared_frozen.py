"""A learner that uses frozen parameters where they lie: equal bits on every backend, and no way to change them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl.errors import BackendError
from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.models.graph import Model
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import EVERY_KIND, Update
from edgefl.rng import NEURONS, stream
from tests.learning.graphs import GRAPHS, model, samples

ROWS = np.arange(8, dtype=np.int32)
BATCHES = [ROWS[:4], ROWS[4:]]


def partly_frozen(name: str) -> Model:
    """Every other learned parameter is frozen."""
    graph = GRAPHS[name]
    return model(replace(graph, frozen=frozenset(ModelSpec.of(graph).learned[::2])))


def bits(learner: GraphLearner) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in learner.read().items()}


@pytest.mark.parametrize("backend", ["native", "numba", "reference", "cuda"])
@pytest.mark.parametrize("name", ["plain", "residual"])
def test_steps_have_equal_bits_and_frozen_parameters_stay_where_they_are(name: str, backend: str) -> None:
    given = partly_frozen(name)
    try:
        copying = GraphLearner(given, backend)
    except BackendError as error:
        pytest.skip(str(error))
    sharing, data = GraphLearner(given, backend, shares_frozen=True), samples(given.graph, len(ROWS))
    before = {frozen: given.params[frozen].tobytes() for frozen in given.graph.frozen}
    for each in (copying, sharing):
        each.fit(data, BATCHES, SGD(0.05, momentum=0.9))
    assert bits(copying) == bits(sharing)
    assert copying.evaluate(data) == sharing.evaluate(data)
    assert copying.memory() == sharing.memory(), "shared parameters count as held"
    for frozen, expected in before.items():
        assert given.params[frozen].tobytes() == expected
        assert np.shares_memory(sharing.read()[frozen], given.params[frozen]) == (backend != "cuda")
    assert not any(np.shares_memory(sharing.read()[n], given.params[n]) for n in ModelSpec.of(given.graph).learned)


def test_other_values_for_a_shared_parameter_are_refused_and_equal_ones_are_not() -> None:
    given = partly_frozen("plain")
    frozen, learned = min(given.graph.frozen), ModelSpec.of(given.graph).learned[0]
    learner = GraphLearner(given, shares_frozen=True)
    update = learner.take(kinds=EVERY_KIND)
    other = {learned: given.params[learned] + 1, frozen: given.params[frozen] + 1}
    expected = rf"other values for '{frozen}', which is frozen and shared; expected a learner without shares_frozen"
    before = bits(learner)
    with pytest.raises(ValueError, match=expected):
        learner.write(other)
    changed = replace(update.blocks[frozen], values=update.blocks[frozen].values + 1)
    with pytest.raises(ValueError, match=expected):
        learner.write(Update({**update.blocks, frozen: changed}))
    assert bits(learner) == before
    learner.write(other | {frozen: given.params[frozen].copy()})
    learner.write(learner.take(kinds=EVERY_KIND))
    assert np.array_equal(learner.read()[learned], other[learned])


def test_smaller_learners_clones_and_masks_leave_shared_parameters_alone() -> None:
    given = partly_frozen("plain")
    spec = ModelSpec.of(given.graph)
    copying, sharing = GraphLearner(given), GraphLearner(given, shares_frozen=True)
    data, neurons = samples(given.graph, len(ROWS)), NeuronSet.draw(spec, 0.5, stream(1, NEURONS))
    for each in (copying, sharing):
        smaller = each.sub(neurons)
        smaller.fit(data, BATCHES, SGD(0.1))
        each.absorb(smaller, neurons)
        each.fit(data, BATCHES, SGD(0.1), FitOptions(neurons))
    assert bits(copying) == bits(sharing)
    twin = sharing.clone()
    twin.fit(data, BATCHES, SGD(0.1))
    assert bits(copying) == bits(sharing) != bits(twin)
    assert all(np.shares_memory(twin.read()[frozen], given.params[frozen]) for frozen in given.graph.frozen)


def test_arrays_that_kernels_cannot_read_are_copied() -> None:
    given = partly_frozen("plain")
    gaps = {name: np.repeat(value, 2, axis=-1)[..., ::2] for name, value in given.params.items()}
    learner = GraphLearner(Model(given.graph, gaps), shares_frozen=True)
    assert not any(np.shares_memory(learner.read()[name], gaps[name]) for name in gaps)
    assert bits(learner) == bits(GraphLearner(given))
    exact = GraphLearner(given, "reference", np.float64, shares_frozen=True)
    assert not any(np.shares_memory(exact.read()[name], given.params[name]) for name in given.params)

"""A learner of some of the neurons: a real smaller model, whose parameters go back to their places in the whole one."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import GraphError, MemoryLimitError, SelectionError
from edgefl.learning import SGD, GraphLearner
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted, sub_params
from edgefl.models.neurons.update import values

from .graphs import GRAPHS, model, samples

SGD_SETTINGS = SGD(0.1, momentum=0.5)
BATCHES = [np.arange(6, dtype=np.int32), np.arange(4, dtype=np.int32)]
NAMES = ["plain", "depthwise", "residual", "mlp", "gates", "skips", "line", "recurrent", "attention", "transformer"]


def half(graph: Graph, round: int = 0) -> NeuronSet:
    return NeuronSet.draw(ModelSpec.of(graph), 0.5, rng.stream(3, rng.NEURONS, round=round))


@pytest.mark.parametrize("name", NAMES)
def test_it_trains_as_the_smaller_model_does(name: str) -> None:
    graph = GRAPHS[name]
    learner, neurons, data = GraphLearner(model(graph)), half(graph), samples(graph, 6)
    smaller = learner.sub(neurons)
    other = GraphLearner(Model(graph.sub(neurons), sub_params(graph, model(graph).params, neurons)))
    assert smaller.fit(data, BATCHES, SGD_SETTINGS) == other.fit(data, BATCHES, SGD_SETTINGS)
    for parameter, value in other.read().items():
        np.testing.assert_array_equal(smaller.read()[parameter], value, err_msg=parameter)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_learnt_goes_back_and_everything_else_keeps_its_bits(name: str) -> None:
    graph = GRAPHS[name]
    learner, neurons = GraphLearner(model(graph)), half(graph)
    before = {parameter: value.copy() for parameter, value in learner.read().items()}
    smaller = learner.sub(neurons)
    smaller.fit(samples(graph, 6), BATCHES, SGD_SETTINGS)
    for parameter, value in learner.read().items():
        np.testing.assert_array_equal(value, before[parameter], err_msg=parameter)  # it shares nothing
    learner.absorb(smaller, neurons)
    assert values(learner.take(neurons)).keys() == set(smaller.spec.exchanged)
    for parameter in smaller.spec.exchanged:
        value = smaller.read()[parameter]
        np.testing.assert_array_equal(learner.take(neurons).blocks[parameter].values, value, err_msg=parameter)
    learner.write(take(before, learner.spec, neurons))
    for parameter, value in learner.read().items():
        np.testing.assert_array_equal(value, before[parameter], err_msg=parameter)


def test_as_many_neurons_again_reuse_the_learner_with_the_blocks_of_now() -> None:
    graph = GRAPHS["plain"]
    learner = GraphLearner(model(graph))
    first, second = half(graph), half(graph, 1)
    assert first != second
    smaller = learner.sub(first)
    smaller.fit(samples(graph, 6), BATCHES, SGD_SETTINGS)
    again = learner.sub(second)
    assert again is smaller
    for parameter, value in sub_params(graph, model(graph).params, second).items():
        np.testing.assert_array_equal(again.read()[parameter], value, err_msg=parameter)


def test_it_keeps_to_the_limit_of_the_whole() -> None:
    graph = GRAPHS["mlp"]
    size = GraphLearner(model(graph)).memory()["params"]
    learner = GraphLearner(model(graph), limit_bytes=size + 8)
    with pytest.raises(MemoryLimitError, match=f"limit_bytes={size + 8}"):
        learner.sub(half(graph))


def test_groups_that_would_break_and_other_models_are_refused() -> None:
    graph = architectures.build("resnet18", (3, 32, 32), 10)
    learner = GraphLearner(Model(graph, graph.init(rng.stream(1, rng.INIT))))
    spec = learner.spec
    uneven = {group: range(1 if group == next(iter(spec.groups)) else size) for group, size in spec.groups.items()}
    with pytest.raises(GraphError):
        learner.sub(NeuronSet.of(spec, uneven))
    with pytest.raises(SelectionError):
        learner.sub(half(GRAPHS["plain"]))


def test_parameters_of_other_neurons_are_not_absorbed() -> None:
    graph = GRAPHS["plain"]
    learner = GraphLearner(model(graph))
    before = {parameter: value.copy() for parameter, value in learner.read().items()}
    smaller = learner.sub(half(graph))
    with pytest.raises(ValueError, match="values of shape"):
        learner.absorb(smaller, NeuronSet.draw(learner.spec, 0.25, rng.stream(3, rng.NEURONS)))
    with pytest.raises(ValueError, match=r"block 'conv1.weight' is not a parameter"):
        lifted({}, learner.spec, half(graph))
    for parameter, value in learner.read().items():
        np.testing.assert_array_equal(value, before[parameter], err_msg=parameter)

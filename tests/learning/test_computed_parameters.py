"""Computed parameters in learners: their sources have torch's gradients in float64, and steps move sources."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner, Samples
from edgefl.learning.losses import MSE
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.computed_parameters import ComputedParameter, MatrixProduct
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch import TorchLearner
from edgefl.torch.graph_module import to_torch

from . import oracle
from .computed_graphs import COMPUTED, normed
from .graphs import model, samples

ROWS = np.arange(6, dtype=np.int32)
TERMS: dict[str, Optimizer] = {
    "plain": SGD(0.05),
    "all": SGD(0.1, momentum=0.8, weight_decay=0.05, clip=0.5, saved="fp16"),
    "adam": Adam(0.01, (0.8, 0.95), 1e-4, weight_decay=0.1),
}


def _samples(x: list[float], y: list[float]) -> Samples:
    return Samples(np.array([x], np.float32), np.array([y], np.float32), loss=MSE())


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
def test_a_weight_norm_by_hand(backend: str) -> None:
    """w = 10 (3, 4) / 5 = (6, 8) gives 14 for x = (1, 1), and dw = 2 * 14 * (1, 1) = (28, 28).

    The slope of g is (28, 28) (3, 4) / 5 = 39.2. The slope of v is 10 / 5 ((28, 28) - 39.2 (0.6, 0.8)) = (8.96, -6.72).
    """
    graph = Graph((2,), (Node("fc", Linear(2, 1, bias=False), (INPUT,)),), computed=(normed("fc", (1, 2)),))
    params = {"fc.weight_g": np.array([[10]], np.float32), "fc.weight_v": np.array([[3, 4]], np.float32)}
    learner = GraphLearner(Model(graph, params), backend)
    data = _samples([1, 1], [0])
    assert learner.predict(data.x).tolist() == [[14]]
    found = learner.gradient(data, ROWS[:1])
    np.testing.assert_allclose(found["fc.weight_g"], [[39.2]], rtol=1e-6)
    np.testing.assert_allclose(found["fc.weight_v"], [[8.96, -6.72]], rtol=1e-5)
    learner.fit(data, [ROWS[:1]], SGD(0.1))
    np.testing.assert_allclose(learner.read()["fc.weight_g"], [[10 - 3.92]], rtol=1e-6)
    np.testing.assert_allclose(learner.read()["fc.weight_v"], [[3 - 0.896, 4 + 0.672]], rtol=1e-6)


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
def test_factors_by_hand(backend: str) -> None:
    """w = 2 * 3 = 6 gives 6 for x = 1. dw = 2 * 6 = 12, so the slopes are 12 * 3 = 36 and 12 * 2 = 24."""
    computed = (ComputedParameter("fc.weight", MatrixProduct(1, 1, 1), ("a", "b")),)
    graph = Graph((1,), (Node("fc", Linear(1, 1, bias=False), (INPUT,)),), computed=computed)
    model = Model(graph, {"a": np.array([[2]], np.float32), "b": np.array([[3]], np.float32)})
    learner = GraphLearner(model, backend)
    found = learner.gradient(_samples([1], [0]), ROWS[:1])
    assert {name: value.tolist() for name, value in found.items()} == {"a": [[36]], "b": [[24]]}
    learner.fit(_samples([1], [0]), [ROWS[:1]], SGD(0.125))
    assert {name: value.tolist() for name, value in learner.read().items()} == {"a": [[-2.5]], "b": [[0]]}


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize("name", COMPUTED)
def test_gradients_are_torchs_in_float64(name: str, keep: float) -> None:
    graph = COMPUTED[name]
    learner = GraphLearner(model(graph), "reference", np.float64)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
    data = samples(graph, len(ROWS), dtype=np.float64)
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y)
    found = learner.gradient(data, ROWS, neurons)
    assert found.keys() == dense.keys() - graph.frozen == set(learner.spec.learned)
    for parameter, (rows, cols) in neurons.blocks(learner.spec, kinds=("learn",)).items():
        expected = oracle.block(dense[parameter], rows, cols)
        np.testing.assert_allclose(found[parameter], expected, rtol=1e-9, atol=1e-12, err_msg=parameter)


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", COMPUTED)
def test_steps_are_torchs(name: str, terms: str, keep: float) -> None:
    """In float64, and within 2e-3 where values wait for the backward pass as float16."""
    graph = COMPUTED[name]
    learner, data = GraphLearner(model(graph), "reference", np.float64), samples(graph, len(ROWS), dtype=np.float64)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
    start = {key: value.copy() for key, value in learner.read().items()}
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    blocks |= dict.fromkeys(graph.frozen, (ROWS[:0], None))
    batches = [ROWS[:4], ROWS[2:]]
    expected, _ = oracle.train(graph, start, data, batches, TERMS[terms], blocks)
    learner.fit(data, batches, TERMS[terms], FitOptions(neurons))
    bound = 2e-3 if TERMS[terms].saved == "fp16" else 1e-9
    for parameter, value in learner.read().items():
        np.testing.assert_allclose(value, expected[parameter], rtol=bound, atol=bound, err_msg=parameter)
    for parameter in graph.frozen:
        assert learner.read()[parameter].tobytes() == start[parameter].tobytes()


@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("name", COMPUTED)
def test_backends_take_the_steps_of_the_reference(name: str, backend: str) -> None:
    found, expected = (GraphLearner(model(COMPUTED[name]), each) for each in (backend, "reference"))
    for learner in (found, expected):
        learner.fit(samples(COMPUTED[name], len(ROWS)), [ROWS], TERMS["plain"])
    for parameter, value in expected.read().items():
        bound = 3e-6 * max(np.abs(value).max(), 1e-2)
        np.testing.assert_allclose(found.read()[parameter], value, rtol=0, atol=bound, err_msg=parameter)


@pytest.mark.parametrize("name", COMPUTED)
def test_a_torch_module_of_the_graph_has_the_sources_and_trains_alike(name: str) -> None:
    given = model(COMPUTED[name])
    assert {key for key in to_torch(given).state_dict() if "num_batches" not in key} == given.params.keys()
    ours, theirs = GraphLearner(given, "reference", np.float64), TorchLearner(given, dtype=np.float64)
    data = samples(given.graph, len(ROWS), dtype=np.float64)
    for learner in (ours, theirs):
        learner.fit(data, [ROWS[:4], ROWS[2:]], TERMS["adam"])
    for parameter, value in theirs.read().items():
        np.testing.assert_allclose(ours.read()[parameter], value, rtol=1e-7, atol=1e-9, err_msg=parameter)
    np.testing.assert_allclose(ours.predict(data.x), theirs.predict(data.x), rtol=1e-7, atol=1e-9)


def test_nothing_is_computed_backwards_for_a_frozen_weight() -> None:
    """Frozen factors have no gradient, and their backward pass is not recorded."""
    given = COMPUTED["fedpara"]
    sources = frozenset(given.roots["conv.weight"])
    frozen = Graph(given.input_shape, given.nodes, sources, given.computed)
    found = GraphLearner(model(frozen)).gradient(samples(frozen, len(ROWS)), ROWS)
    assert found.keys() == {"conv.bias", "fc.weight", "fc.bias"}


@pytest.mark.parametrize(("name", "groups"), [("weight_norms", {"first": 4}), ("lora", {}), ("fedpara", {})])
def test_layers_at_a_computed_weight_have_no_neurons_to_choose(name: str, groups: dict[str, int]) -> None:
    """The layer `second` has none, because the computed weight above it reads its outputs."""
    assert ModelSpec.of(COMPUTED[name]).groups == groups


def test_values_of_computed_parameters_are_numpys() -> None:
    given = model(COMPUTED["lora"])
    found, p = given.graph.computed_values(given.params), given.params
    np.testing.assert_allclose(found["fc.weight"], p["fc.base"] + 2 * p["fc.b"] @ p["fc.a"], rtol=1e-6)

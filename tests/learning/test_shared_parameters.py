"""Shared parameters in learners: one gradient, the sum over all uses, and one step after the last use.

The check is torch's autograd in float64, in which one tensor has several uses.
"""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner, Samples
from edgefl.learning.losses import MSE
from edgefl.learning.lowering.sparse_weight import candidate
from edgefl.learning.memory.accounts import estimate
from edgefl.learning.memory.training_setup import TrainingConfiguration
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch import TorchLearner
from edgefl.torch.graph_module import to_torch

from . import oracle
from .graphs import model, samples
from .shared_graphs import SHARED

ROWS = np.arange(6, dtype=np.int32)
TERMS: dict[str, Optimizer] = {
    "plain": SGD(0.05),
    "all": SGD(0.1, momentum=0.8, weight_decay=0.05, clip=0.5, nesterov=True),
    "adam": Adam(0.01, (0.8, 0.95), 1e-4, weight_decay=0.1),
}


def _chosen(graph: Graph, keep: float) -> NeuronSet:
    return NeuronSet.draw(ModelSpec.of(graph), keep, rng.stream(3, rng.NEURONS))


def _one_weight() -> tuple[Model, Samples]:
    """y = w (w x) for w = 3 and x = 2, whose squared distance to 0 is 324. Its slope is 2 * 18 * (2 w x) = 432."""
    op = Linear(1, 1, bias=False)
    nodes = (Node("a", op, (INPUT,)), Node("b", op, ("a",), (("weight", "a.weight"),)))
    given = Model(Graph((1,), nodes), {"a.weight": np.full((1, 1), 3, np.float32)})
    return given, Samples(np.full((1, 1), 2, np.float32), np.zeros((1, 1), np.float32), loss=MSE())


@pytest.mark.parametrize("backend", ["native", "numba", "reference"])
def test_a_weight_with_two_uses_has_the_sum_of_both_slopes(backend: str) -> None:
    given, data = _one_weight()
    learner = GraphLearner(given, backend)
    assert learner.gradient(data, ROWS[:1])["a.weight"].tolist() == [[432]]
    learner.fit(data, [ROWS[:1]], SGD(1 / 432))
    assert learner.read()["a.weight"].tolist() == [[2]]
    learner.fit(data, [ROWS[:1]], SGD(1.0, clip=0.5))  # the gradient of 2 * 8 * 8 = 128 is shortened to 0.5
    assert learner.read()["a.weight"].tolist() == [[1.5]]


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize("name", SHARED)
def test_gradients_are_torchs_in_float64(name: str, keep: float) -> None:
    graph = SHARED[name]
    learner, neurons = GraphLearner(model(graph), "reference", np.float64), _chosen(graph, keep)
    data = samples(graph, len(ROWS), dtype=np.float64)
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y)
    found = learner.gradient(data, ROWS, neurons)
    assert found.keys() == dense.keys()
    for parameter, (rows, cols) in neurons.blocks(learner.spec, kinds=("learn",)).items():
        expected = oracle.block(dense[parameter], rows, cols)
        np.testing.assert_allclose(found[parameter], expected, rtol=1e-9, atol=1e-12, err_msg=parameter)


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", SHARED)
def test_steps_are_torchs_in_float64(name: str, terms: str, keep: float) -> None:
    graph, neurons = SHARED[name], _chosen(SHARED[name], keep)
    learner, data = GraphLearner(model(graph), "reference", np.float64), samples(graph, len(ROWS), dtype=np.float64)
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    start = {key: value.copy() for key, value in learner.read().items()}
    pull = (0.1, {key: value + 0.5 for key, value in start.items()})
    batches = [ROWS[:4], ROWS[2:]]
    expected, _ = oracle.train(graph, start, data, batches, TERMS[terms], blocks, pull)
    learner.fit(data, batches, TERMS[terms], FitOptions(neurons, pull=pull))
    for parameter, value in learner.read().items():
        np.testing.assert_allclose(value, expected[parameter], rtol=1e-8, atol=1e-9, err_msg=parameter)
    for parameter, (rows, cols) in blocks.items():
        still = ~oracle.mask(start[parameter].shape, rows, cols)
        assert learner.read()[parameter][still].tobytes() == start[parameter][still].tobytes(), parameter


@pytest.mark.parametrize("backend", ["native", "numba"])
@pytest.mark.parametrize("name", SHARED)
def test_backends_take_the_steps_of_the_reference(name: str, backend: str) -> None:
    """The largest difference is 2e-6 of the largest value, in one step of plain SGD with some of the neurons."""
    graph, neurons = SHARED[name], _chosen(SHARED[name], 0.4)
    found, expected = (GraphLearner(model(graph), each) for each in (backend, "reference"))
    for learner in (found, expected):
        learner.fit(samples(graph, len(ROWS)), [ROWS], TERMS["plain"], FitOptions(neurons))
    for parameter, value in expected.read().items():
        bound = 2e-6 * max(np.abs(value).max(), 1e-2)
        np.testing.assert_allclose(found.read()[parameter], value, rtol=0, atol=bound, err_msg=parameter)


@pytest.mark.parametrize("name", SHARED)
def test_a_torch_module_of_the_graph_trains_alike(name: str) -> None:
    """Its state_dict has each shared parameter once, and so has its optimizer."""
    given = model(SHARED[name])
    ours, theirs = GraphLearner(given, "reference", np.float64), TorchLearner(given, dtype=np.float64)
    assert {key for key in to_torch(given).state_dict() if "num_batches" not in key} == given.params.keys()
    for learner in (ours, theirs):
        learner.fit(samples(given.graph, len(ROWS), dtype=np.float64), [ROWS[:4], ROWS[2:]], TERMS["all"])
    for parameter, value in theirs.read().items():
        np.testing.assert_allclose(ours.read()[parameter], value, rtol=1e-7, atol=1e-9, err_msg=parameter)


@pytest.mark.parametrize("name", ["tied", "again", "branches"])
def test_masked_shared_weights_stay_whole_and_keep_to_the_mask(name: str) -> None:
    graph = SHARED[name]
    learner, data, draw = GraphLearner(model(graph)), samples(graph, len(ROWS)), np.random.default_rng(0)
    shapes = {key: graph.parameters()[key].shape for key in graph.shared if key.endswith(".weight")}
    mask = Mask({key: draw.random(shape) < 0.5 for key, shape in shapes.items() if len(shape) > 1})
    assert all(candidate(graph, learner.spec, key, 3, 6) is None for key in mask.bits)
    learner.restrict(mask)
    twin = GraphLearner(Model(graph, {key: value.copy() for key, value in learner.read().items()}))
    dense = twin.gradient(data, ROWS)
    found = learner.strongest(data, ROWS, mask, dict.fromkeys(mask.bits, 2))
    for key, bits in mask.bits.items():
        outside = np.where(bits, 0, np.abs(dense[key].reshape(bits.shape))).reshape(-1)
        assert sorted(found[key].tolist()) == sorted(np.argsort(-outside, kind="stable")[:2].tolist()), key
    learner.fit(data, [ROWS], TERMS["all"])
    for key, bits in mask.bits.items():
        assert not learner.read()[key][~bits].any() and learner.read()[key][bits].all(), key


@pytest.mark.parametrize("name", ["again", "branches", "mirror", "steps"])
def test_the_account_counts_a_shared_parameter_once(name: str) -> None:
    graph = SHARED[name]
    for keep in (1.0, 0.5):
        training = TrainingConfiguration(name, graph, 4, keep=keep, examples=6)
        learner = GraphLearner(model(graph))
        batches = [ROWS[:4], ROWS[4:]]
        learner.fit(samples(graph, len(ROWS)), batches, SGD(0.0), FitOptions(training.trained[1]))
        expected = estimate("exact", training).parts
        for part, size in learner.memory().items():
            assert part == "scratch" or size == expected[part], part

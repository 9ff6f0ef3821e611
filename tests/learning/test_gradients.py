"""Exact gradients of every operation against torch autograd in float64, for whole models and for neuron sets."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import GraphLearner
from edgefl.learning.lowering.lower import lower
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Add, Conv2d, Flatten, Linear, ReLU
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from . import oracle
from .graphs import GRAPHS, model, samples

KEEPS = (1.0, 0.6, 0.3)


def everything(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def assert_close(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Require a difference of at most 1e-10 of the largest value. A largest value below 1e-5 counts as 1e-5."""
    scale = max(np.abs(expected).max(initial=0.0), 1e-5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * scale, err_msg=name)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("name", GRAPHS)
def test_float64_gradient_equals_autograd_on_active_blocks(name: str, keep: float) -> None:
    graph, batch = GRAPHS[name], 3
    learner = GraphLearner(model(graph), "reference", np.float64)
    data = samples(graph, batch, dtype=np.float64)
    neurons = NeuronSet.draw(learner.spec, keep, rng.stream(3, rng.NEURONS))
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y)
    found = learner.gradient(data, everything(batch), neurons)
    assert found.keys() == dense.keys()
    for parameter, (rows, cols) in neurons.blocks(learner.spec, kinds=("learn",)).items():
        assert_close(found[parameter], oracle.block(dense[parameter], rows, cols), parameter)


@pytest.mark.parametrize("name", ["groupnorm", "grouped", "fan_out", "mlp", "global_pool_output"])
def test_gradient_of_a_single_example(name: str) -> None:
    graph = GRAPHS[name]
    learner = GraphLearner(model(graph), "reference", np.float64)
    data = samples(graph, 1, dtype=np.float64)
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y)
    for parameter, found in learner.gradient(data, everything(1)).items():
        assert_close(found, dense[parameter], parameter)


@pytest.mark.parametrize("name", ["plain", "groupnorm", "depthwise", "residual", "fan_out", "recurrent", "attention"])
def test_cut_zeroes_the_output_grad_at_frozen_neurons(name: str) -> None:
    graph, batch = GRAPHS[name], 4
    learner = GraphLearner(model(graph), "reference", np.float64)
    data = samples(graph, batch, dtype=np.float64)
    neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(3, rng.NEURONS))
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y, oracle.cut(blocks))
    found = learner.gradient(data, everything(batch), neurons, delta="cut")
    for parameter, (rows, cols) in blocks.items():
        assert_close(found[parameter], oracle.block(dense[parameter], rows, cols), parameter)


def test_lemma_2_holds_exactly_and_fails_when_cut() -> None:
    """<grad F, grad Fbar> = |grad Fbar|^2, where grad Fbar is what the learner applies (FedSPU Lemma 2)."""
    graph, batch = GRAPHS["plain"], 6
    learner = GraphLearner(model(graph), "reference", np.float64)
    data = samples(graph, batch, dtype=np.float64)
    neurons = NeuronSet.draw(learner.spec, 0.4, rng.stream(1, rng.NEURONS))
    dense = learner.gradient(data, everything(batch))
    blocks = neurons.blocks(learner.spec, kinds=("learn",))
    for delta, holds in (("exact", True), ("cut", False)):
        applied = learner.gradient(data, everything(batch), neurons, delta=delta)
        inner = sum(float((oracle.block(dense[name], *blocks[name]) * part).sum()) for name, part in applied.items())
        square = sum(float((part**2).sum()) for part in applied.values())
        assert (abs(inner - square) <= 1e-12 * square) is holds, delta


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_output_grad_that_two_sums_pass_on_reaches_each_result_once(order: tuple[int, int]) -> None:
    """(relu + conv) + relu: both sums hand one buffer down, and what relu gets may not be added up in it."""
    inner, outer = ([names[i] for i in order] for names in (("relu", "conv"), ("sum1", "relu")))
    nodes = (
        Node("conv", Conv2d(2, 3, (2, 2)), (INPUT,)),
        Node("relu", ReLU(), ("conv",)),
        Node("sum1", Add(), tuple(inner)),
        Node("sum2", Add(), tuple(outer)),
        Node("flatten", Flatten(), ("sum2",)),
        Node("fc", Linear(12, 5), ("flatten",)),
    )
    graph = Graph((2, 3, 3), nodes)
    learner, data = GraphLearner(model(graph), "reference", np.float64), samples(graph, 4, dtype=np.float64)
    dense = oracle.gradients(graph, dict(learner.read()), data.x, data.y)
    for parameter, found in learner.gradient(data, everything(4)).items():
        assert_close(found, dense[parameter], parameter)


def test_batch_norm_leaves_a_bias_before_it_no_gradient() -> None:
    """It leaves not even rounding noise. Group norm, which takes away the mean of several channels, leaves some
    gradient.
    """
    biases = {}
    for name in ("plain", "groupnorm"):
        learner = GraphLearner(model(GRAPHS[name]), "reference")
        biases[name] = learner.gradient(samples(GRAPHS[name], 4), everything(4))["conv2.bias"]
    assert not biases["plain"].any() and biases["groupnorm"].any()


def test_flatten_maps_a_channel_to_its_run_of_columns() -> None:
    """With only channel c alive at the flatten, the Linear layer above has gradients in columns [4c, 4c + 4) only."""
    graph = GRAPHS["plain"]
    start = model(graph)
    channel = 3
    for name in ("bn2.weight", "bn2.bias"):
        start.params[name][:] = 0
    start.params["bn2.bias"][channel] = 1
    learner = GraphLearner(start, "reference")
    neurons = NeuronSet.full(learner.spec)
    active = dict(neurons.active) | {"conv2": np.array([1, channel])}
    data = samples(graph, 4)
    dense = learner.gradient(data, everything(4))["fc1.weight"]
    assert np.flatnonzero(np.abs(dense).max(axis=0)).tolist() == [12, 13, 14, 15]
    part = learner.gradient(data, everything(4), NeuronSet.of(learner.spec, active))["fc1.weight"]
    assert part.shape == (7, 8)
    np.testing.assert_array_equal(part, dense[:, [4, 5, 6, 7, 12, 13, 14, 15]])


def test_the_output_grad_to_half_of_a_linear_layers_inputs_is_computed_for_all() -> None:
    graph = GRAPHS["mlp"]
    spec = ModelSpec.of(graph)
    for keep, is_whole in ((0.3, False), (0.6, True)):
        schedule = lower(graph, spec, 3, NeuronSet.draw(spec, keep, rng.stream(3, rng.NEURONS)))
        (ins,) = (call.args[4] for call in schedule.calls if (call.op, call.node) == ("linear_grad_input", "fc2"))
        assert (ins is None) is is_whole


def test_gradient_leaves_parameters_and_statistics_alone() -> None:
    graph = GRAPHS["residual"]
    learner = GraphLearner(model(graph), "reference")
    before = {name: value.copy() for name, value in learner.read().items()}
    learner.gradient(samples(graph, 5), everything(5))
    for name, value in learner.read().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_spec_and_gradients_name_the_same_parameters() -> None:
    for name, graph in GRAPHS.items():
        learner = GraphLearner(model(graph), "reference")
        found = learner.gradient(samples(graph, 2), everything(2))
        learned = {p: info.shape for p, info in ModelSpec.of(graph).params.items() if info.kind == "learn"}
        assert {p: value.shape for p, value in found.items()} == learned, name

"""Dropout in a learner: steps equal torch's with the same values dropped, and nothing is dropped where nothing should
be.

tests/kernels checks the words of the stream and the kernel, and test_fuzz.py has random graphs with dropout.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from edgefl import rng
from edgefl.errors import GraphError, TrainingError
from edgefl.kernels.reference.dropout import words
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.lowering.lower import lower
from edgefl.learning.running import training_steps
from edgefl.methods.client_state import dropout_key, minibatches
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.json import dumps, loads
from edgefl.models.graph.operations import (
    Add,
    AnyDropout,
    AvgPool2d,
    Conv1d,
    Conv2d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Flatten,
    Linear,
    MaxPool2d,
    Operation,
    ReLU,
    StochasticDepth,
)
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params

from . import oracle
from .graphs import chain, model, samples

BACKENDS = ("native", "numba", "reference")
POSITION = Keyed(0xFEDCBA9876543210, 5)
SETTINGS = SGD(0.1, momentum=0.5)
KEEPS = (1.0, 0.5)


def in_order(shape: tuple[int, ...], *ops: Operation) -> Graph:
    """Return a graph of these operations, one after another, named by their numbers."""
    return chain(shape, *((str(number), op) for number, op in enumerate(ops)))


def shortcut() -> Graph:
    """A result that is dropped in one branch and read whole in another."""
    operations: list[tuple[str, Operation, tuple[str, ...]]] = [
        ("first", Dropout(0.1), (INPUT,)),
        ("conv", Conv2d(2, 8, (3, 3), padding=(1, 1)), ("first",)),
        ("drop", Dropout2d(0.4), ("conv",)),
        ("relu", ReLU(), ("drop",)),
        ("beside", Conv2d(8, 8, (3, 3), padding=(1, 1)), ("conv",)),
        ("pool", MaxPool2d((2, 2), (2, 2), ceil_mode=True), ("relu",)),
        ("other", AvgPool2d((2, 2), (2, 2), ceil_mode=True), ("beside",)),
        ("flat", Flatten(), ("pool",)),
        ("flat2", Flatten(), ("other",)),
        ("a", Linear(128, 9), ("flat",)),
        ("b", Linear(128, 9), ("flat2",)),
    ]
    nodes = [Node(name, op, inputs) for name, op, inputs in operations]
    nodes += [Node("less", Dropout(0.2), ("a",)), Node("sum", Add(), ("less", "b"))]
    nodes += [Node("last", Dropout(0.5), ("sum",)), Node("fc", Linear(9, 5), ("last",))]
    return Graph((2, 7, 7), tuple(nodes))


GRAPHS = {
    "shortcut": shortcut(),
    "line": in_order((3, 20), Conv1d(3, 8, 3), Dropout1d(0.3), ReLU(), Dropout(0.2), Flatten(), Linear(144, 5)),
    "examples": in_order(
        (2, 5, 5),
        Conv2d(2, 6, (3, 3)),
        StochasticDepth(0.4),
        ReLU(),
        Flatten(),
        Linear(54, 9),
        StochasticDepth(0.2),
        Linear(9, 5),
    ),
    "features": in_order((13,), Linear(13, 70), ReLU(), Dropout(0.5), Linear(70, 33), Dropout(0.0), Linear(33, 5)),
}


def batches(count: int = 11) -> list[np.ndarray]:
    draw = np.random.default_rng(2)
    return [draw.permutation(count)[:size].astype(np.int32) for size in (4, 4, 3, 4, 1, 11)]


def bits(learner: GraphLearner) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in learner.read().items()}


@pytest.mark.parametrize("name", GRAPHS)
def test_steps_equal_torchs_with_the_same_values_dropped(name: str) -> None:
    graph, spec = GRAPHS[name], ModelSpec.of(GRAPHS[name])
    for keep in KEEPS:
        neurons = NeuronSet.draw(spec, keep, rng.stream(3, rng.NEURONS))
        data = samples(graph, 11, dtype=np.float64)
        start = model(graph)
        blocks = neurons.blocks(spec, kinds=("learn",))
        expected, _ = oracle.train(graph, start.params, data, batches(), SETTINGS, blocks, dropout=POSITION)
        exact = GraphLearner(start, "reference", np.float64)
        exact.fit(data, Listed(batches(), POSITION), SETTINGS, FitOptions(neurons))
        for parameter, value in exact.read().items():
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-10, atol=1e-11, err_msg=parameter)
        for backend in BACKENDS:
            learner = GraphLearner(start, backend)
            learner.fit(samples(graph, 11), Listed(batches(), POSITION), SETTINGS, FitOptions(neurons))
            for parameter, value in learner.read().items():
                np.testing.assert_allclose(value, expected[parameter], atol=2e-5, err_msg=f"{backend}: {parameter}")


@pytest.mark.parametrize("name", GRAPHS)
def test_a_gradient_drops_the_same_values_in_whatever_chunks(name: str) -> None:
    graph, everything = GRAPHS[name], np.arange(9, dtype=np.int32)
    data = samples(graph, 9, dtype=np.float64)
    learner = GraphLearner(model(graph), "reference", np.float64)
    expected = oracle.gradients(graph, dict(learner.read()), data.x, data.y, dropout=Keyed(7))
    for chunk in (None, 4, 1):
        for parameter, value in learner.gradient(data, everything, chunk=chunk, key=7).items():
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-9, atol=1e-11, err_msg=parameter)
    other = learner.gradient(data, everything, key=8)
    assert any((value != expected[parameter]).any() for parameter, value in other.items())


def test_only_key_and_step_say_what_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of steps in a call, earlier fits and the way in which batches are made have no effect."""
    graph = GRAPHS["shortcut"]
    data, sgd = samples(graph, 11), SGD(0.1)

    def fitted(*positions: tuple[list[np.ndarray], Keyed]) -> dict[str, bytes]:
        learner = GraphLearner(model(graph))
        for index, position in positions:
            learner.fit(data, Listed(index, position), sgd)
        return bits(learner)

    whole = fitted((batches(), POSITION))
    parts = [(batches()[:2], POSITION), (batches()[2:], POSITION._replace(step=POSITION.step + 2))]
    assert fitted(*parts) == whole
    monkeypatch.setattr(training_steps, "MOST_STEPS", 1)
    assert fitted((batches(), POSITION)) == whole
    for other in (
        POSITION._replace(key=POSITION.key ^ 1),
        POSITION._replace(key=POSITION.key ^ 1 << 63),
        POSITION._replace(step=6),
    ):
        assert fitted((batches(), other)) != whole


def test_passes_that_a_method_takes_apart_are_those_that_it_takes_together() -> None:
    graph = GRAPHS["features"]
    data, rows = samples(graph, 11), np.arange(11, dtype=np.int32)
    client_state = SimpleNamespace(seed=4, client=3, train=rows)
    together, apart = GraphLearner(model(graph)), GraphLearner(model(graph))
    together.fit(data, minibatches(client_state, 9, 2, 4), SGD(0.1))
    for first in (0, 1):
        apart.fit(data, minibatches(client_state, 9, 1, 4, first), SGD(0.1))
    assert bits(together) == bits(apart)


def test_where_nothing_is_trained_nothing_is_dropped() -> None:
    graph = GRAPHS["shortcut"]
    without = Graph(graph.input_shape, tuple(replace(node, op=idle(node.op)) for node in graph.nodes))
    data, everything = samples(graph, 11), np.arange(11, dtype=np.int32)
    learner, plain = GraphLearner(model(graph)), GraphLearner(Model(without, model(graph).params))
    assert learner.evaluate(data) == plain.evaluate(data)
    assert (learner.predict(data.x) == plain.predict(data.x)).all()
    expected = oracle.logits(graph, oracle.to_torch(learner.read()), torch.tensor(data.x, dtype=torch.float64), False)
    np.testing.assert_allclose(learner.predict(data.x), expected.detach().numpy(), atol=1e-5)
    assert (learner.features(data) == plain.features(data)).all()
    outside = Mask.of(learner.spec, {"a.weight": np.zeros((9, 128), bool)})
    found = learner.strongest(data, everything, outside, {"a.weight": 20})["a.weight"]
    assert found.tolist() == plain.strongest(data, everything, outside, {"a.weight": 20})["a.weight"].tolist()
    plain.fit(data, [everything], SGD(0.1))  # with p = 0 it needs no key
    before = bits(plain)
    learner.fit(data, Listed([everything], POSITION), SGD(0.1))
    assert bits(learner) != before
    for mode in ("evaluate", "predict", "features", "grow"):
        assert "dropout" not in {call.op for call in lower(graph, learner.spec, 4, mode=mode, cut="last").calls}, mode
    trained = [call.op for call in lower(graph, learner.spec, 4).calls]
    assert (trained.count("dropout"), trained[-1], trained.count("count_step")) == (7, "count_step", 1)  # not below it


def idle(op: Operation) -> Operation:
    return replace(op, p=0.0) if isinstance(op, AnyDropout) else op


def test_it_keeps_nothing_for_the_backward_pass() -> None:
    """Both passes work in place: the step's memory is that of the model without it."""
    with_it = in_order((13,), Linear(13, 70), ReLU(), Dropout(0.5), Linear(70, 5))
    without = in_order((13,), Linear(13, 70), ReLU(), Linear(70, 5))
    arenas = [lower(graph, ModelSpec.of(graph), 16).arena_bytes for graph in (with_it, without)]
    assert arenas[0] == arenas[1]


def test_training_without_a_key_is_refused_and_changes_nothing() -> None:
    graph = GRAPHS["features"]
    learner, data, everything = GraphLearner(model(graph)), samples(graph, 5), np.arange(5, dtype=np.int32)
    before = bits(learner)
    with pytest.raises(TrainingError, match="dropout \\(2\\) and no key; expected"):
        learner.fit(data, [everything], SGD(0.1))
    with pytest.raises(TrainingError, match="no key"):
        learner.gradient(data, everything)
    for key in (-1, 1 << 64):
        with pytest.raises(TrainingError, match=f"key={key} of dropout; expected 0 <= key < 2\\^64"):
            learner.gradient(data, everything, key=key)
    assert bits(learner) == before


def test_what_p_may_be_and_how_it_travels() -> None:
    for p in (1.0, -0.1, float("nan"), 1):
        with pytest.raises(GraphError, match="Dropout: p="):
            Dropout(p)
    for graph in GRAPHS.values():
        assert loads(dumps(graph)) == graph
    assert '"ceil_mode":true' in dumps(GRAPHS["shortcut"])
    assert "ceil_mode" not in dumps(in_order((2, 4, 4), MaxPool2d((2, 2), (2, 2)), Flatten(), Linear(8, 5)))


def test_a_smaller_model_drops_as_a_model_of_its_size_does() -> None:
    graph = in_order(
        (2, 7, 7), Conv2d(2, 8, (3, 3)), Dropout2d(0.3), ReLU(), Flatten(), Linear(200, 12), Dropout(0.5), Linear(12, 5)
    )
    neurons = NeuronSet.draw(ModelSpec.of(graph), 0.5, rng.stream(3, rng.NEURONS))
    smaller = GraphLearner(model(graph)).sub(neurons)
    smaller.fit(samples(graph, 11), Listed(batches(), POSITION), SETTINGS)
    small = graph.sub(neurons)
    given = small, sub_params(graph, model(graph).params, neurons), samples(graph, 11), batches(), SETTINGS
    expected, _ = oracle.train(*given, dropout=POSITION)
    for parameter, value in smaller.read().items():
        np.testing.assert_allclose(value, expected[parameter], atol=2e-5, err_msg=parameter)


def test_under_a_mask_sparse_layers_take_it_like_dense_ones() -> None:
    """The images of a batch lie side by side between sparse convolutions."""
    graph = in_order(
        (8, 8, 8), Conv2d(8, 32, (3, 3), padding=(1, 1)), Dropout2d(0.3), ReLU(),
        Conv2d(32, 32, (3, 3), padding=(1, 1)), Dropout(0.2), ReLU(), Flatten(), Linear(2048, 5),
    )  # fmt: skip
    spec, draw = ModelSpec.of(graph), np.random.default_rng(0)
    wide = [name for name, param in spec.params.items() if len(param.shape) > 1]
    mask = Mask.of(spec, {name: draw.random(spec.params[name].shape) < 0.05 for name in wide})
    data, index = samples(graph, 32), [np.arange(32, dtype=np.int32)]
    learner, whole = GraphLearner(model(graph)), GraphLearner(model(graph), "reference")
    for each in (learner, whole):
        each.restrict(mask, 32)
        each.fit(data, Listed(index, POSITION), SGD(0.1))
    for parameter, value in whole.read().items():
        np.testing.assert_allclose(learner.read()[parameter], value, atol=2e-5, err_msg=parameter)


def test_words_are_even_and_independent_of_step_node_example_round_and_client() -> None:
    """With p = .3, .3 of 2^16 values are dropped, and any two sets have .09 in common, within six deviations."""
    count, p = 1 << 16, 0.3

    def dropped(key: int, step: int = 0, node: int = 0, first: int = 0) -> np.ndarray:
        state = np.array([key, step, first], object)
        return words(state, node, 1, count)[0] < round(p * 2**32)

    client_state = [SimpleNamespace(seed=seed, client=client) for seed, client in ((1, 0), (1, 1), (2, 0))]
    sets = [dropped(dropout_key(each, round)) for each in client_state for round in (1, 2)]
    key = dropout_key(client_state[0], 1)
    sets += [dropped(key, step=1), dropped(key, step=2), dropped(key, node=1), dropped(key, first=1)]
    sets += [np.roll(sets[0], shift) for shift in (1, 16, 64)]
    for each in sets:
        assert abs(each.mean() - p) < 6 * np.sqrt(p * (1 - p) / count)
    for i, one in enumerate(sets):
        for other in sets[:i]:
            assert abs((one & other).mean() - p * p) < 6 * np.sqrt(p * p * (1 - p * p) / count)


def test_the_mean_of_many_steps_is_what_is_predicted() -> None:
    """A linear model's outputs on the dropped values average to its output in evaluation, within six deviations."""
    features, steps = 64, 400
    graph = in_order((features,), Dropout(0.25), Linear(features, 2, bias=False))
    data = Samples(np.ones((8, features), np.float32), np.zeros(8, np.int32))
    learner = GraphLearner(model(graph))
    rate, everything = 0.0, np.arange(8, dtype=np.int32)
    found = learner.fit(data, Listed([everything] * steps, POSITION), SGD(rate))
    kept = words(np.array([POSITION.key, POSITION.step, 0], object), 0, 8, features) >= round(0.25 * 2**32)
    assert abs(kept.mean() - 0.75) < 6 * np.sqrt(0.75 * 0.25 / kept.size)
    assert found.loss_sum / found.examples != pytest.approx(learner.evaluate(data).loss_sum / 8, rel=1e-4)
    weight = learner.read()["1.weight"].astype(np.float64)
    margins = []
    for step in range(steps):
        state = np.array([POSITION.key, POSITION.step + step, 0], object)
        factors = (words(state, 0, 8, features) >= round(0.25 * 2**32)) / 0.75
        margins.append(factors @ (weight[1] - weight[0]))
    losses = np.log1p(np.exp(margins))
    assert found.loss_sum == pytest.approx(losses.sum(), rel=1e-6)
    deviation = np.std(margins) / np.sqrt(np.size(margins))
    assert abs(np.mean(margins) - (weight[1] - weight[0]).sum()) < 6 * deviation

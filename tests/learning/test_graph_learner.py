"""Evaluation, prediction, clones, caching, memory and errors of the GraphLearner."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from edgefl import rng
from edgefl.errors import BackendError, DataError, GraphError, TrainingError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Conv2d, GlobalAvgPool, Linear
from edgefl.models.neurons.neuron_set import NeuronSet

from . import oracle
from .graphs import CLASSES, GRAPHS, model, samples

BACKENDS = ("native", "reference", "cuda")


def everything(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_evaluation_and_prediction_equal_torch(backend: str, name: str) -> None:
    graph = GRAPHS[name]
    learner, data = GraphLearner(model(graph), backend), samples(graph, 9)
    outputs = oracle.logits(graph, oracle.to_torch(learner.read()), torch.tensor(data.x, dtype=torch.float64), False)
    labels = torch.tensor(data.y, dtype=torch.int64)
    found = learner.evaluate(data)
    assert found.loss_sum == pytest.approx(F.cross_entropy(outputs, labels, reduction="sum").item(), rel=1e-5)
    assert (found.correct, found.examples) == (int((outputs.argmax(1) == labels).sum()), 9)
    np.testing.assert_allclose(learner.predict(data.x), outputs.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["plain", "residual", "mlp"])
def test_features_are_the_inputs_of_the_last_linear(name: str) -> None:
    graph = GRAPHS[name]
    learner, data = GraphLearner(model(graph)), samples(graph, 7)
    last = graph.nodes[-1].name
    features = learner.features(data)
    weight, bias = learner.read()[f"{last}.weight"], learner.read()[f"{last}.bias"]
    np.testing.assert_allclose(features @ weight.T + bias, learner.predict(data.x), rtol=1e-5, atol=1e-5)


def test_features_of_a_single_linear_are_its_inputs() -> None:
    graph = Graph((6,), (Node("fc", Linear(6, CLASSES), (INPUT,)),))
    data = samples(graph, 3)
    np.testing.assert_array_equal(GraphLearner(model(graph)).features(data), data.x)


def test_evaluation_by_index_counts_those_examples_only() -> None:
    graph = GRAPHS["plain"]
    learner, data = GraphLearner(model(graph)), samples(graph, 8)
    chosen = np.array([6, 1, 3], np.int32)
    part = learner.evaluate(Samples(data.x[chosen], data.y[chosen]))
    assert learner.evaluate(data, chosen) == part
    assert part.examples == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_evaluations_of_several_indices_are_those_of_each_index(backend: str, name: str) -> None:
    learner, data = GraphLearner(model(GRAPHS[name]), backend), samples(GRAPHS[name], 300)
    cuts = [0, 2, 5, 7, 10, 11, 300]  # lengths 2, 3, 2, 3, 1, and one that takes two passes
    indices = [everything(300)[start:end] for start, end in itertools.pairwise(cuts)]
    found = learner.evaluate_each(data, indices)
    assert found == [GraphLearner(model(GRAPHS[name]), backend).evaluate(data, index) for index in indices]
    assert learner.evaluate_each(data, []) == []


def test_an_index_that_does_not_fit_is_refused_before_any_pass() -> None:
    learner, data = GraphLearner(model(GRAPHS["mlp"])), samples(GRAPHS["mlp"], 8)
    with pytest.raises(DataError, match="indices 8 to 8; expected 0 to 7"):
        learner.evaluate_each(data, [everything(3), np.array([8], np.int32)])


def test_evaluation_in_chunks_covers_every_example() -> None:
    graph = GRAPHS["mlp"]
    learner, data = GraphLearner(model(graph)), samples(graph, 600)
    losses = [learner.evaluate(data, everything(600)[start : start + 100]).loss_sum for start in range(0, 600, 100)]
    assert learner.evaluate(data).loss_sum == pytest.approx(sum(losses), rel=1e-9)
    assert len(learner.predict(data.x)) == 600


def test_evaluation_changes_nothing() -> None:
    graph = GRAPHS["residual"]
    learner, data = GraphLearner(model(graph)), samples(graph, 8)
    before = {name: value.copy() for name, value in learner.read().items()}
    learner.evaluate(data)
    learner.predict(data.x)
    for name, value in learner.read().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_parameters_are_written_by_name_and_cannot_be_written_in_place() -> None:
    graph = GRAPHS["mlp"]
    start = model(graph)
    learner = GraphLearner(start)
    learner.write({"fc3.weight": np.zeros_like(start.params["fc3.weight"]), "fc3.bias": np.arange(5.0)})
    np.testing.assert_array_equal(learner.predict(samples(graph, 2).x), [[0, 1, 2, 3, 4]] * 2)
    assert start.params["fc3.weight"].any()
    with pytest.raises(ValueError, match="read-only"):
        learner.read()["fc3.bias"][:] = 1


def test_a_clone_lives_its_own_life() -> None:
    graph = GRAPHS["plain"]
    learner, data = GraphLearner(model(graph)), samples(graph, 8)
    batch = [everything(8)]
    learner.fit(data, batch, SGD(0.1))
    twin, other = learner.clone(), learner.clone()
    before = {name: value.copy() for name, value in learner.read().items()}
    twin.fit(data, batch, SGD(0.1))
    for name, value in learner.read().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
        np.testing.assert_array_equal(other.read()[name], before[name], err_msg=name)
    learner.fit(data, batch, SGD(0.1))
    for name, value in learner.read().items():
        np.testing.assert_array_equal(value, twin.read()[name], err_msg=name)


def test_interleaved_sets_batches_and_modes_do_not_disturb_each_other() -> None:
    """A learner that is also asked for other passes ends where one that only trains ends."""
    graph = GRAPHS["plain"]
    data = samples(graph, 40)
    quiet, busy = GraphLearner(model(graph)), GraphLearner(model(graph))
    for step in range(8):
        neurons = NeuronSet.draw(quiet.spec, 0.5, rng.stream(step, rng.NEURONS))
        batch = everything(40)[step : step + 3 + step % 3]
        quiet.fit(data, [batch], SGD(0.1, momentum=0.5), FitOptions(neurons))
        busy.predict(data.x[: step + 1])
        busy.gradient(data, everything(20 + step))
        busy.fit(data, [batch], SGD(0.1, momentum=0.5), FitOptions(neurons))
        busy.evaluate(data)
    for name, value in quiet.read().items():
        np.testing.assert_array_equal(value, busy.read()[name], err_msg=name)


def test_one_and_two_threads_give_the_same_bits() -> None:
    from edgefl.kernels import native

    graph = GRAPHS["residual"]
    data, before = samples(graph, 32), native.threads()
    results = []
    try:
        for threads in (1, 2):
            native.set_threads(threads)
            learner = GraphLearner(model(graph), "native")
            learner.fit(data, [everything(32)] * 4, SGD(0.05, momentum=0.9))
            results.append(learner)
    finally:
        native.set_threads(before)
    for name, value in results[0].read().items():
        np.testing.assert_array_equal(value, results[1].read()[name], err_msg=name)


def test_release_gives_the_arena_back() -> None:
    graph = GRAPHS["plain"]
    learner = GraphLearner(model(graph), "native")
    learner.fit(samples(graph, 16), [everything(16)], SGD(0.1))
    assert learner.memory()["arena"] > 0
    learner.release()
    assert learner.memory()["arena"] == 0


def test_memory_does_not_grow_with_steps() -> None:
    graph = GRAPHS["plain"]
    learner, data = GraphLearner(model(graph), "native"), samples(graph, 64)
    batches = [everything(64)[start : start + 16] for start in (0, 16, 32, 48)]
    learner.fit(data, batches * 10, SGD(1e-3))
    resident = _resident_bytes()
    tracemalloc.start()
    try:
        learner.fit(data, batches, SGD(1e-3))
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            learner.fit(data, batches, SGD(1e-3))
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 4096
    assert _resident_bytes() - resident < 2 << 20


def _resident_bytes() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("resident memory is read from /proc, which this system lacks")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_samples_that_do_not_fit_are_refused() -> None:
    graph = GRAPHS["plain"]
    learner, data = GraphLearner(model(graph)), samples(graph, 4)
    sgd, batch = SGD(0.1), [everything(4)]
    with pytest.raises(DataError, match=r"samples of shape \(3, 7, 8\); expected \(3, 8, 8\)"):
        learner.fit(Samples(np.ascontiguousarray(data.x[:, :, 1:]), data.y), batch, sgd)
    with pytest.raises(DataError, match="label 5; expected labels below 5"):
        learner.evaluate(Samples(data.x, data.y * 0 + 5))
    with pytest.raises(DataError, match="samples of type float64"):
        learner.evaluate(Samples(data.x.astype(np.float64), data.y))
    with pytest.raises(DataError, match="y contains -1"):
        Samples(data.x, data.y * 0 - 1)
    with pytest.raises(DataError, match="y: int64"):
        Samples(data.x, data.y.astype(np.int64))
    with pytest.raises(DataError, match="x: int32"):
        Samples(data.x.astype(np.int32), data.y)


def test_batches_that_do_not_fit_are_refused() -> None:
    graph = GRAPHS["plain"]
    learner, data = GraphLearner(model(graph)), samples(graph, 4)
    with pytest.raises(TrainingError, match="fit with 0 batches"):
        learner.fit(data, [], SGD(0.1))
    with pytest.raises(DataError, match="indices 2 to 4; expected 0 to 3"):
        learner.fit(data, [np.array([2, 4], np.int32)], SGD(0.1))
    with pytest.raises(DataError, match="indices -1 to 3; expected 0 to 3"):
        learner.fit(data, [np.array([3, -1], np.int32)], SGD(0.1))
    with pytest.raises(DataError, match="expected at least one int32 index"):
        learner.gradient(data, everything(0))
    with pytest.raises(DataError, match="batch of int64"):
        learner.evaluate(data, np.arange(3))
    with pytest.raises(DataError, match="expected at least one"):
        learner.evaluate(samples(graph, 0))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lr=-0\.1; expected a finite value >= 0"):
        SGD(-0.1)
    with pytest.raises(ValueError, match="momentum=1"):
        SGD(0.1, momentum=1)
    with pytest.raises(ValueError, match="clip=inf"):
        SGD(0.1, clip=float("inf"))


def test_float64_needs_the_reference_backend() -> None:
    with pytest.raises(BackendError, match="dtype=float64"):
        GraphLearner(model(GRAPHS["mlp"]), "native", np.float64)


def test_models_without_logits_or_features_are_refused() -> None:
    planes = Graph((1, 4, 4), (Node("conv", Conv2d(1, 2, (3, 3)), (INPUT,)),))
    data = Samples(np.zeros((2, 1, 4, 4), np.float32), np.zeros(2, np.int32))
    with pytest.raises(DataError, match=r"shape \(2,\); expected int32 of shape \(2, 2, 2\) for outputs"):
        GraphLearner(model(planes)).evaluate(data)
    pooled = Graph((1, 4, 4), (*planes.nodes, Node("mean", GlobalAvgPool(), ("conv",))))
    with pytest.raises(GraphError, match="without a Linear layer"):
        GraphLearner(model(pooled)).features(data)


def test_a_model_with_missing_parameters_is_refused() -> None:
    with pytest.raises(GraphError, match="is missing"):
        GraphLearner(Model(GRAPHS["mlp"], {}))

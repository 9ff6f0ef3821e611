"""Batches of one sample under a batch normalisation over single values: one rule for all learners and backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import TrainingError
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed, Minibatches, joined, occurring
from edgefl.learning.learner import Learner
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import BatchNorm1d, BatchNorm2d, Conv2d, Flatten, Linear, ReLU
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.torch import TorchLearner
from edgefl.torch.graph_module import GraphModule

SINGLE = Graph(
    (4,),
    (
        Node("fc1", Linear(4, 5), ("input",)),
        Node("norm", BatchNorm1d(5), ("fc1",)),
        Node("relu", ReLU(), ("norm",)),
        Node("fc2", Linear(5, 3), ("relu",)),
    ),
)
PLANES = Graph(  # 4 values per channel in a sample
    (1, 3, 3),
    (
        Node("conv", Conv2d(1, 2, (2, 2)), ("input",)),
        Node("norm", BatchNorm2d(2), ("conv",)),
        Node("flat", Flatten(), ("norm",)),
        Node("fc", Linear(8, 3), ("flat",)),
    ),
)
LAST_CELL = Graph(  # one value per channel, as the planes have one cell
    (1, 2, 2),
    (
        Node("conv", Conv2d(1, 2, (2, 2)), ("input",)),
        Node("bn", BatchNorm2d(2), ("conv",)),
        Node("flat", Flatten(), ("bn",)),
        Node("fc", Linear(2, 3), ("flat",)),
    ),
)
PLAIN = Graph((4,), (Node("fc", Linear(4, 3), ("input",)),))


def model(graph: Graph) -> Model:
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


def samples(graph: Graph, count: int = 9) -> Samples:
    values = rng.stream(2, rng.DATA).uniform(count * int(np.prod(graph.input_shape))).astype(np.float32)
    return Samples(values.reshape(count, *graph.input_shape), np.arange(count, dtype=np.int32) % 3)


def module_learner(found: Model) -> TorchLearner:
    """A learner of a torch module without a graph."""
    module = GraphModule(found.graph)
    learner = TorchLearner(module=module, neurons=ModelSpec.of(found.graph))
    learner.write(found.params)
    return learner


LEARNERS: dict[str, Callable[[Model], Any]] = {
    "native": lambda found: GraphLearner(found, "native"),
    "numba": lambda found: GraphLearner(found, "numba"),
    "reference": lambda found: GraphLearner(found, "reference"),
    "torch": TorchLearner,
    "module": module_learner,
}


def passes(rows: int, batch: int, epochs: int = 1) -> Minibatches:
    return Minibatches(np.arange(rows, dtype=np.int32), lambda epoch: np.roll(np.arange(rows), epoch), epochs, batch)


def listed(*sizes: int) -> list[np.ndarray]:
    ends = np.cumsum(sizes)
    return [np.arange(end - size, end, dtype=np.int32) for size, end in zip(sizes, ends, strict=True)]


@pytest.mark.parametrize(
    ("graph", "name"), [(SINGLE, "norm"), (PLANES, ""), (LAST_CELL, "bn"), (PLAIN, "")], ids=["1d", "2d", "cell", "no"]
)
def test_a_graph_says_which_layer_sees_single_values(graph: Graph, name: str) -> None:
    assert single_value_norm(graph) == name


@pytest.mark.parametrize(
    ("rows", "batch", "lengths"),
    [
        (5, 2, [2, 3]),
        (3, 2, [3]),
        (4, 2, [2, 2]),
        (9, 4, [4, 5]),
        (9, 8, [9]),
        (10, 4, [4, 4, 2]),
        (1, 2, [1]),
        (3, 1, [1, 1, 1]),
        (2, 1 << 50, [2]),
    ],
)
def test_a_last_batch_of_one_row_joins_the_one_before(rows: int, batch: int, lengths: list[int]) -> None:
    found = joined(passes(rows, batch, epochs=2))
    assert [len(each) for each in found] == lengths * 2
    assert len(found) == 2 * len(lengths)
    assert occurring(found)[1] == set(lengths)
    assert [each.tolist() for each in found[-1:]] == [found[len(found) - 1].tolist()]
    assert sorted(np.concatenate(found[: len(lengths)]).tolist()) == list(range(rows))


@pytest.mark.parametrize(
    ("lengths", "after"),
    [
        ([2, 1], [3]),
        ([2, 1, 2, 1], [3, 3]),
        ([1, 2], [1, 2]),
        ([1, 1], [1, 1]),
        ([2, 1, 1], [4]),
        ([2, 2], [2, 2]),
    ],
)
def test_a_listed_batch_of_one_row_joins_the_one_before(lengths: list[int], after: list[int]) -> None:
    found = joined(Listed(listed(*lengths), Keyed(7, 3)))
    assert [len(each) for each in found] == after
    assert getattr(found, "dropout", None) == Keyed(7, 3)
    assert np.concatenate(list(found)).tolist() == list(range(sum(lengths)))


def test_the_rows_before_the_last_batch_are_as_they_were() -> None:
    usual = passes(9, 4)
    assert [each.tolist() for each in usual] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [each.tolist() for each in joined(usual)] == [[0, 1, 2, 3], [4, 5, 6, 7, 8]]


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_trains_as_on_the_joined_batches(name: str) -> None:
    found = fitted(LEARNERS[name](model(SINGLE)), SINGLE, passes(5, 2))
    expected = fitted(LEARNERS[name](model(SINGLE)), SINGLE, listed(2, 3))
    assert found[0].steps == expected[0].steps == 2
    assert found[0].examples == 5
    assert np.isfinite(found[0].loss_sum)
    assert all(np.array_equal(found[1][each], expected[1][each]) for each in expected[1])


@pytest.mark.parametrize("graph", [PLANES, PLAIN], ids=["planes", "plain"])
@pytest.mark.parametrize("name", LEARNERS)
def test_other_models_keep_a_batch_of_one(name: str, graph: Graph) -> None:
    found = fitted(LEARNERS[name](model(graph)), graph, passes(5, 2))
    expected = fitted(LEARNERS[name](model(graph)), graph, listed(2, 2, 1))
    assert found[0].steps == expected[0].steps == 3
    assert all(np.array_equal(found[1][each], expected[1][each]) for each in expected[1])


@pytest.mark.parametrize(
    "batches", [passes(1, 2), passes(3, 1), listed(1), listed(1, 2)], ids=["one", "by 1", "l", "f"]
)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_batch_of_one_without_one_before_is_refused_by_name(name: str, batches: Sequence[np.ndarray]) -> None:
    learner = LEARNERS[name](model(SINGLE))
    before = {each: value.copy() for each, value in learner.read().items()}
    with pytest.raises(TrainingError, match="a batch of 1 sample; the batch normalisation") as refusal:
        fitted(learner, SINGLE, batches)
    assert "norm' sees 1 value per channel in a sample, so expected batches of at least 2" in str(refusal.value)
    assert all(np.array_equal(value, before[each]) for each, value in learner.read().items())


@pytest.mark.parametrize("name", ["native", "reference", "torch"])
def test_a_norm_before_the_cut_needs_no_two_samples(name: str) -> None:
    learner = LEARNERS[name](model(SINGLE))
    found = learner.fit(samples(SINGLE), passes(5, 2), SGD(0.1), FitOptions(cut="relu"))
    assert (found.steps, found.examples) == (3, 5)


@pytest.mark.parametrize("name", ["native", "reference", "torch"])
def test_a_norm_after_the_cut_does(name: str) -> None:
    learner = LEARNERS[name](model(SINGLE))
    found = learner.fit(samples(SINGLE), passes(5, 2), SGD(0.1), FitOptions(cut="fc1"))
    assert (found.steps, found.examples) == (2, 5)


def fitted(learner: Learner, graph: Graph, batches: Sequence[np.ndarray]) -> tuple[Any, dict[str, np.ndarray]]:
    found = learner.fit(samples(graph), batches, SGD(0.1))
    return found, {name: value.copy() for name, value in learner.read().items()}

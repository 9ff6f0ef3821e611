"""Batches made when they are asked for: the same as a list of them, and no larger than one pass."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import DataError, MemoryLimitError, TrainingError
from edgefl.learning import SGD, GraphLearner
from edgefl.learning.batches import Keyed, Minibatches, RepeatedBatch, keyed, occurring, runs
from edgefl.learning.running import training_steps

from .graphs import GRAPHS, model, samples

ROWS = np.array([3, 5, 8, 9, 11, 2, 0], np.int32)
GRAPH = GRAPHS["plain"]


def order(epoch: int) -> np.ndarray:
    return rng.stream(1, rng.DATA, extra=epoch).permutation(len(ROWS))


def lists(batches: Minibatches | RepeatedBatch) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def test_passes_go_over_all_rows_in_orders_of_their_own() -> None:
    batches = Minibatches(ROWS, order, 2, 3)
    expected = [ROWS[order(epoch)][start : start + 3].tolist() for epoch in (0, 1) for start in (0, 3, 6)]
    assert lists(batches) == expected
    assert [batches[i].tolist() for i in range(6)] == expected
    assert [batch.tolist() for batch in batches[1:-1]] == expected[1:-1]
    assert (len(batches), batches[-1].tolist()) == (6, expected[-1])
    with pytest.raises(IndexError):
        batches[6]


@pytest.mark.parametrize(("batch", "sizes"), [(3, {3, 1}), (7, {7}), (1, {1}), (10, {7}), (1 << 50, {7})])
def test_sizes_are_known_before_a_batch_is_made(batch: int, sizes: set[int]) -> None:
    batches = Minibatches(ROWS, order, 2, batch)
    assert batches.sizes == sizes == {len(each) for each in batches}
    assert [rows.tolist() for rows in occurring(batches)[0]] == [ROWS.tolist()]


def test_a_million_epochs_are_counted_and_not_made() -> None:
    batches = Minibatches(ROWS, order, 10**9, 3)
    assert len(batches) == 3 * 10**9
    assert next(iter(runs(batches, 4)))[0].tolist() == ROWS[order(0)][:3].tolist()
    assert len(RepeatedBatch(ROWS, 10**12)) == 10**12


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 3, 6, 7, 9])
@pytest.mark.parametrize("most", [1, 2, 256])
def test_runs_have_the_batches_in_order_and_batches_of_one_size_together(batch: int, joins: bool, most: int) -> None:
    batches = Minibatches(ROWS, order, 2, batch, joins=joins)
    found = list(runs(batches, most))
    assert [row.tolist() for run in found for row in run] == lists(batches)
    assert all(run.dtype == np.int32 and len(run) <= most for run in found)


def test_the_key_of_dropout_is_drawn_only_for_a_model_with_dropout() -> None:
    def drawn() -> Keyed:
        raise AssertionError("drawn")

    batches = Minibatches(ROWS, order, 1, 3, drawn)
    GraphLearner(model(GRAPH)).fit(samples(GRAPH, 12), batches, SGD(0.1))
    with pytest.raises(AssertionError, match="drawn"):
        keyed(batches)


NONE = Minibatches(ROWS[:0], lambda epoch: np.zeros(0, np.int64), 2, 3)


@pytest.mark.parametrize("batches", [Minibatches(ROWS, order, 0, 3), NONE, RepeatedBatch(ROWS, 0), []])
def test_no_batches_are_none(batches: Minibatches) -> None:
    assert (len(batches), list(batches), occurring(batches)[1]) == (0, [], set())
    with pytest.raises(TrainingError, match="fit with 0 batches"):
        GraphLearner(model(GRAPH)).fit(samples(GRAPH, 12), batches, SGD(0.1))


@pytest.mark.parametrize("batches", [Minibatches(ROWS, order, 3, 3), RepeatedBatch(ROWS, 5)])
@pytest.mark.parametrize("most", [1, 2, 256])
def test_a_fit_does_not_depend_on_how_its_batches_come(
    batches: Minibatches, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, listed, lazy = samples(GRAPH, 12), GraphLearner(model(GRAPH)), GraphLearner(model(GRAPH))
    expected = listed.fit(data, list(batches), SGD(0.1))
    monkeypatch.setattr(training_steps, "MOST_STEPS", most)
    assert lazy.fit(data, batches, SGD(0.1)) == expected
    for name, value in listed.read().items():
        assert value.tobytes() == lazy.read()[name].tobytes()


def test_rows_that_do_not_exist_are_refused_before_the_first_step() -> None:
    learner = GraphLearner(model(GRAPH))
    before = {name: value.tobytes() for name, value in learner.read().items()}
    with pytest.raises(DataError, match="batch with indices 0 to 11; expected 0 to 9"):
        learner.fit(samples(GRAPH, 10), Minibatches(ROWS, order, 2, 3), SGD(0.1))
    assert before == {name: value.tobytes() for name, value in learner.read().items()}


def test_features_beyond_the_limit_are_refused() -> None:
    data = samples(GRAPH, 64)
    free = GraphLearner(model(GRAPH))
    needed = sum(value.nbytes for value in free.read().values())
    limited = GraphLearner(model(GRAPH), limit_bytes=needed + 200_000)
    few = np.arange(4, dtype=np.int32)
    assert limited.features(data, few).tobytes() == free.features(data, few).tobytes()
    with pytest.raises(MemoryLimitError, match=r"features of 100000 examples needs [0-9]+ bytes"):
        limited.features(data, np.zeros(100_000, np.int32))

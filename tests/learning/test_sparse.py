"""Weights held as values alone: the same model as with dense kernels, whatever is asked of it, and less memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.learning.lowering import sparse_weight
from edgefl.learning.lowering.lower import lower_active
from edgefl.learning.running import schedule_planner
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Conv1d, Flatten, Linear, ReLU
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.update import Block, Update

from .graphs import CLASSES, GRAPHS, chain, model, samples
from .test_fit import TERMS, batches_of
from .test_restrict import assert_zero_outside, drawn, masked, torch_steps

BACKENDS = ("native", "reference", "cuda")
NAMES = ("plain", "groupnorm", "grouped", "residual", "mlp", "norm_first")
SEQUENCES = chain(
    (4, 14),
    ("conv1", Conv1d(4, 6, 5, 2, 2)),
    ("relu1", ReLU()),
    ("conv2", Conv1d(6, 8, 3, padding=2, dilation=2, bias=False)),
    ("relu2", ReLU()),
    ("flatten", Flatten()),
    ("fc", Linear(56, CLASSES)),
)
LARGE = 64  # examples for which a Linear layer has a structure of its own for the gradient of its input


@pytest.fixture(autouse=True)
def every_layer_runs_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_weight, "runs_sparse", lambda weight, ops: True)


def rolled(mask: Mask) -> Mask:
    """Another mask with as many coordinates of each parameter."""
    return Mask({name: np.roll(bits.reshape(-1), 1).reshape(bits.shape) for name, bits in mask.bits.items()})


def pairs(backend: str, graph: Graph, mask: Mask) -> Iterator[tuple[GraphLearner, GraphLearner]]:
    """A learner with sparse weights, for small batches and for large ones, and one with dense weights at the mask."""
    for batch in (16, LARGE):
        ours, dense = GraphLearner(model(graph), backend), GraphLearner(model(graph), backend)
        dense.head() if graph.nodes[-1].name.startswith("fc") else dense.with_head(5)  # learners that share are dense
        ours.restrict(mask, batch)
        dense.restrict(mask, batch)
        assert ours.memory()["params"] < dense.memory()["params"]
        yield ours, dense


def close(ours: GraphLearner, dense: GraphLearner, note: str) -> None:
    for key, value in dense.read().items():
        bound = 3e-5 * max(np.abs(value).max(), 1e-2)
        np.testing.assert_allclose(ours.read()[key], value, 0, bound, err_msg=f"{note}: {key}")


@pytest.mark.parametrize("name", ["plain", "mlp"])
def test_float64_steps_equal_torch_with_masked_weights(name: str) -> None:
    graph = GRAPHS[name]
    mask, data, batches = drawn(graph), samples(graph, 11, dtype=np.float64), batches_of(11, 4, epochs=2)
    for terms, batch in (("plain", 16), ("all", LARGE)):
        learner = GraphLearner(model(graph), "reference", np.float64)
        learner.restrict(mask, batch)
        expected = torch_steps(graph, mask, model(graph).params, data, batches, TERMS[terms])
        learner.fit(data, batches, TERMS[terms])
        for parameter, value in learner.read().items():
            note = f"{terms}, {batch}: {parameter}"
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-8, atol=1e-9, err_msg=note)


ASKED = [*(("native", name) for name in (*NAMES, "lines")), ("reference", "mlp"), ("cuda", "mlp"), ("cuda", "lines")]


@pytest.mark.parametrize(("backend", "name"), ASKED)
def test_whatever_is_asked_is_as_with_dense_kernels(backend: str, name: str) -> None:
    """There are steps with every term at two masks, passes without a gradient, a gradient, and the search for the
    strongest.
    """
    graph = GRAPHS.get(name, SEQUENCES)
    first, data, batches = drawn(graph), samples(graph, 11), batches_of(11, 4, epochs=2)
    index = batches_of(11, 11)[0]
    for ours, dense in pairs(backend, graph, first):
        start = masked(first, model(graph).params)
        pull = (0.1, {key: value + 1 for key, value in start.items()})
        linear = {key: value * 0.1 for key, value in start.items()}
        for mask in (first, rolled(first)):
            for learner in (ours, dense):
                learner.restrict(mask, ours._batch or 16)
                learner.write(start)
                learner.fit(data, batches, TERMS["all"], FitOptions(pull=pull, linear=linear))
                learner.fit(data, batches, SGD(0.05), FitOptions(frozenset({graph.nodes[0].name})))
            close(ours, dense, name)
            assert_zero_outside(mask, ours.read())
        ours.write(dense.read())
        np.testing.assert_allclose(ours.predict(data.x), dense.predict(data.x), rtol=1e-4, atol=1e-5)
        assert ours.evaluate(data).loss_sum == pytest.approx(dense.evaluate(data).loss_sum, rel=1e-5)
        found, expected = ours.gradient(data, index), dense.gradient(data, index)
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, 1e-4, 1e-4 * np.abs(value).max(initial=1e-3), err_msg=key)
        counts = {key: min(7, int((~bits).sum())) for key, bits in mask.bits.items()}
        strongest, wanted = (learner.strongest(data, index, mask, counts) for learner in (ours, dense))
        assert {key: ids.tolist() for key, ids in strongest.items()} == {k: ids.tolist() for k, ids in wanted.items()}


@pytest.mark.parametrize("backend", BACKENDS)
def test_reading_and_writing_go_by_the_mask(backend: str) -> None:
    graph = GRAPHS["plain"]
    learner, mask, start = GraphLearner(model(graph), backend), drawn(graph), model(graph).params
    learner.restrict(mask)
    for key, value in masked(mask, start).items():
        np.testing.assert_array_equal(learner.read()[key], value, err_msg=key)
    assert learner.take(mask).count == sum(each.size for each in mask.ids.values()) + sum(
        value.size for key, value in start.items() if key not in mask.bits
    )
    name, ids = "conv2.weight", mask.ids["conv2.weight"]
    inside = Update({name: Block((8, 6, 3, 3), Flat(ids[::2].copy(), 432), np.ones(len(ids[::2]), np.float32))})
    learner.write(inside)
    expected = masked(mask, start)[name]
    expected.reshape(-1)[ids[::2]] = 1
    np.testing.assert_array_equal(learner.read()[name], expected)
    twin = learner.clone()
    twin.write(start)
    np.testing.assert_array_equal(twin.read()[name], masked(mask, start)[name])
    np.testing.assert_array_equal(learner.read()[name], expected)
    moved = rolled(mask)
    learner.restrict(moved)  # what both masks have stays, what is new is 0
    np.testing.assert_array_equal(learner.read()[name], np.where(moved.bits[name], expected, 0))
    head = learner.head()
    np.testing.assert_array_equal(head.read()["fc2.weight"], learner.read()["fc2.weight"])
    learner.restrict(None)
    np.testing.assert_array_equal(learner.read()[name], np.where(moved.bits[name], expected, 0))
    learner.write(start)
    np.testing.assert_array_equal(learner.read()[name], start[name])
    with pytest.raises(ValueError, match=r"'fc1.weight' of shape \(3,\); expected \(7, 32\)"):
        learner.write({"fc1.weight": np.zeros(3)})


def test_another_mask_with_as_many_coordinates_keeps_the_programs() -> None:
    graph = GRAPHS["plain"]
    learner, mask, data = GraphLearner(model(graph)), drawn(graph), samples(graph, 8)
    learner.restrict(mask)
    learner.fit(data, batches_of(8, 4), SGD(0.1))
    (session,) = learner._workspace.sessions.values()
    before = session.programs[4]
    learner.restrict(rolled(mask))
    learner.fit(data, batches_of(8, 4), SGD(0.1))
    (session,) = learner._workspace.sessions.values()
    assert session.programs[4] is before


@pytest.mark.parametrize("is_sparse", [True, False], ids=["as values", "whole"])
def test_a_learner_that_has_all_coordinates_for_a_while_lowers_nothing_again(
    is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner trains at a mask, evaluates whole, and evaluates at a mask, with another mask of as many ones each
    time.

    Every value equals the value of a fresh learner. A mask with another count takes over nothing. Waiting memory is
    counted, and given back.
    """
    monkeypatch.setattr(sparse_weight, "runs_sparse", lambda weight, ops: is_sparse)
    graph = GRAPHS["plain"]
    data, mask, start = samples(graph, 9), drawn(graph), model(graph).params
    lowered: list[str] = []

    def lower(*given: Any, **options: Any) -> Any:
        lowered.append(options["mode"])
        return lower_active(*given, **options)

    monkeypatch.setattr(schedule_planner, "lower_active", lower)

    def round_at(learner: GraphLearner, mask: Mask) -> list[float]:
        learner.restrict(mask)
        learner.write(start)
        losses = [learner.fit(data, batches_of(9, 4), SGD(0.1, momentum=0.9)).loss_sum]
        losses.append(learner.evaluate(data).loss_sum)
        learner.restrict(None)
        return [*losses, learner.evaluate(data).loss_sum]

    kept = GraphLearner(model(graph))
    for expected in (["train", "train", "evaluate", "evaluate"], [], []):  # batches of 4 and of 1
        found, new = round_at(kept, mask), lowered[:]
        assert new == expected
        assert found == round_at(GraphLearner(model(graph)), mask)
        lowered.clear()
        mask = rolled(mask)
    other = Mask({name: bits | (np.arange(bits.size) < 9).reshape(bits.shape) for name, bits in mask.bits.items()})
    assert round_at(kept, other) == round_at(GraphLearner(model(graph)), other)
    assert lowered.count("train") == (4 if is_sparse else 2), "where weights lie whole their counts do not matter"
    waiting = kept._workspace.sessions.mask_bytes
    assert kept.memory()["indices"] == waiting
    assert (waiting > 0) != is_sparse
    kept.release()
    assert kept.memory()["indices"] == 0
    found = round_at(kept, mask)
    assert found == round_at(GraphLearner(model(graph)), mask)

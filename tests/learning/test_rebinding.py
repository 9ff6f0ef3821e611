"""Other neurons and other data take the place of the former ones in the programs of a learner: none is lowered anew."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.lowering import lower as lowering
from edgefl.learning.lowering.active_ids import ActiveIndices
from edgefl.learning.running import schedule_planner, workspace
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from .graphs import GRAPHS, model, samples

BACKENDS = ("native", "numba", "reference", "cuda")


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batch size of every schedule that a workspace makes."""
    sizes: list[int] = []

    def count(graph, spec, batch, *args, **kwargs):
        sizes.append(batch)
        return lowering.lower_active(graph, spec, batch, *args, **kwargs)

    monkeypatch.setattr(schedule_planner, "lower_active", count)
    return sizes


def draw(spec: ModelSpec, round_: int) -> NeuronSet:
    return NeuronSet.draw(spec, 0.5, rng.stream(3, rng.NEURONS, round=round_))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["plain", "depthwise", "residual", "mlp"])
def test_new_neurons_and_data_reuse_the_programs(lowered: list[int], backend: str, name: str) -> None:
    graph = GRAPHS[name]
    learner, batches = GraphLearner(model(graph), backend), [np.arange(4, dtype=np.int32), np.arange(3, dtype=np.int32)]
    for round_ in range(3):
        data, neurons = samples(graph, 4 + round_), draw(learner.spec, round_)
        fresh = GraphLearner(model(graph), backend)
        for key, value in learner.read().items():
            fresh.write({key: value})
        fresh.fit(data, batches, SGD(0.1, momentum=0.5), FitOptions(neurons))
        planned = len(lowered)
        learner.fit(data, batches, SGD(0.1, momentum=0.5), FitOptions(neurons))
        assert len(lowered) == planned + (2 if round_ == 0 else 0)
        for key, value in fresh.read().items():
            np.testing.assert_array_equal(learner.read()[key], value, err_msg=key)


def test_evaluation_of_other_data_reuses_the_program(lowered: list[int]) -> None:
    graph = GRAPHS["plain"]
    learner = GraphLearner(model(graph))
    first, second = samples(graph, 6), samples(graph, 6)
    second = Samples(np.ascontiguousarray(second.x[::-1]), second.y, scale=0.5)
    learner.evaluate(first)
    planned = len(lowered)
    assert learner.evaluate(second) == GraphLearner(model(graph)).evaluate(second)
    assert len(lowered) == planned + 1  # the fresh learner's


def test_former_data_are_let_go() -> None:
    graph = GRAPHS["mlp"]
    learner, first = GraphLearner(model(graph)), samples(graph, 6)
    learner.fit(first, [np.arange(6, dtype=np.int32), np.arange(5, dtype=np.int32)], SGD(0.1))
    gone = weakref.ref(first.x)
    learner.fit(samples(graph, 6), [np.arange(6, dtype=np.int32)], SGD(0.1))
    del first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", GRAPHS)
def test_adopted_lists_are_those_of_the_other_neurons(name: str) -> None:
    graph = GRAPHS[name]
    spec = ModelSpec.of(graph)
    ours = ActiveIndices.of(graph, spec, draw(spec, 0), "exact")
    for round_ in range(1, 6):
        theirs = ActiveIndices.of(graph, spec, draw(spec, round_), "exact")
        if theirs.signature != ours.signature:  # other neurons may hit another number of GroupNorm groups
            continue
        ours.adopt(theirs)
        for mine, others in zip(ours._lists(), theirs._lists(), strict=True):
            np.testing.assert_array_equal(mine, others)


def test_many_batch_sizes_do_not_pile_up() -> None:
    graph = GRAPHS["mlp"]
    learner, data = GraphLearner(model(graph)), samples(graph, 40)
    for size in range(40, 0, -1):  # the first needs the largest arena
        learner.fit(data, [np.arange(size, dtype=np.int32)], SGD(0.1))
    (session,) = learner._workspace.sessions.values()
    assert len(session.schedules) == len(session.programs) == workspace.SIZES_KEPT + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_is_replaced_in_its_place(backend: str) -> None:
    from edgefl import kernels

    program = kernels.backend(backend).Program()
    x, y = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    program.append("add", x, x, y)
    program.append("add", y, x, y)
    program.replace(0, "add", x, y, y)
    program.run()
    assert len(program) == 2 and (y == 2).all()
    with pytest.raises(ValueError, match="position=2; expected 0 to 1"):
        program.replace(2, "add", x, x, y)
    with pytest.raises(ValueError, match="no_such_op"):
        program.replace(0, "no_such_op")
    program.run()
    assert (y == 4).all()

"""Placement of buffers, and that schedules name their lifetimes truly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefl import rng
from edgefl.kernels.memory import ALIGNMENT
from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.learning.lowering.arena import allocate
from edgefl.learning.lowering.lower import Mode, lower
from edgefl.learning.lowering.schedule import Buffer, Schedule
from edgefl.learning.lowering.updates import Terms
from edgefl.models.graph import Graph, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from .graphs import GRAPHS, model, samples

BUILT_IN = {name: architectures.build(name, (3, 32, 32), 10) for name in architectures.PUBLISHED}


def assert_disjoint(buffers: tuple[Buffer, ...], offsets: tuple[int, ...], size: int, float_bytes: int) -> None:
    """Buffers that are live together do not overlap, and all lie inside the arena."""
    spans = [(offset, offset + b.bytes(float_bytes)) for b, offset in zip(buffers, offsets, strict=True)]
    for i, ((start, end), one) in enumerate(zip(spans, buffers, strict=True)):
        assert start % ALIGNMENT == 0
        assert start >= 0
        assert end <= size
        for (other_start, other_end), other in list(zip(spans, buffers, strict=True))[:i]:
            apart_in_time = one.last < other.first or other.last < one.first
            assert apart_in_time or end <= other_start or other_end <= start


def test_buffers_that_never_meet_share_memory() -> None:
    one, two, three = Buffer("float", 16, 0, 1), Buffer("float", 16, 2, 3), Buffer("float", 16, 1, 2)
    assert allocate([one, two, three], 4) == ((0, 0, 64), 128)


def test_a_small_buffer_fills_the_lowest_gap_that_fits() -> None:
    large, small = Buffer("float", 64, 0, 0), Buffer("byte", 1, 0, 9)
    late = Buffer("float", 32, 1, 1)
    assert allocate([small, large, late], 4) == ((256, 0, 0), 320)


def test_nothing_to_allocate() -> None:
    assert allocate([], 4) == ((), 0)
    assert allocate([Buffer("float", 0, 0, 5)], 4) == ((0,), 0)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(0, 6)), max_size=24))
def test_live_buffers_never_overlap(drawn: list[tuple[int, int, int]]) -> None:
    buffers = tuple(Buffer("float", size, first, first + length) for size, first, length in drawn)
    offsets, size = allocate(buffers, 4)
    assert_disjoint(buffers, offsets, size, 4)
    assert allocate(buffers, 4) == (offsets, size)


@pytest.mark.parametrize("keep", [1.0, 0.4])
@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_no_overlap_in_the_plans_of_built_in_models(name: str, keep: float) -> None:
    graph = BUILT_IN[name]
    spec = ModelSpec.of(graph)
    neurons = NeuronSet.draw(spec, keep, rng.stream(1, rng.NEURONS))
    for schedule in (lower(graph, spec, 5, neurons), lower(graph, spec, 7, mode="evaluate")):
        assert_disjoint(schedule.buffers, schedule.offsets, schedule.arena_bytes, 4)


@pytest.mark.parametrize("mode", ["train", "gradient"])
@pytest.mark.parametrize("name", GRAPHS)
def test_results_do_not_depend_on_what_the_arena_held(name: str, mode: Mode) -> None:
    """The arena is full of NaN before the pass, and every result is equal: undefined channels are never read."""
    graph = GRAPHS[name]
    data, index = samples(graph, 4), np.arange(4, dtype=np.int32)
    neurons = NeuronSet.draw(ModelSpec.of(graph), 0.5, rng.stream(6, rng.NEURONS))
    results = []
    for fill in (0, 255):  # bytes of zeros, and of NaNs
        learner = GraphLearner(model(graph))
        learner.gradient(data, index, neurons)
        learner.predict(data.x)
        learner._workspace.blocks.arena.fill(fill)
        if mode == "gradient":
            results.append(learner.gradient(data, index, neurons))
        else:
            learner.fit(data, [index], SGD(0.1), FitOptions(neurons))
            results.append(dict(learner.read()))
    for parameter, value in results[0].items():
        assert np.isfinite(value).all(), parameter
        np.testing.assert_array_equal(value, results[1][parameter], err_msg=parameter)


def _arena(graph: Graph, keep: float, terms: Terms | None = None) -> Schedule:
    spec = ModelSpec.of(graph)
    return lower(graph, spec, 16, NeuronSet.draw(spec, keep, rng.stream(1, rng.NEURONS)), terms=terms)


@pytest.mark.parametrize("name", architectures.PUBLISHED)
def test_fewer_neurons_hardly_ever_need_a_larger_arena(name: str) -> None:
    """A layer's input and the copy of its active channels are both live for one call, which may be the peak."""
    graph = BUILT_IN[name]
    sizes = [_arena(graph, keep).arena_bytes for keep in (0.2, 0.6, 1.0)]
    assert sizes[0] <= sizes[1] <= 1.08 * sizes[2]
    assert sizes[0] <= 1.01 * sizes[2]


def test_clipping_holds_all_gradients_at_once() -> None:
    """Momentum needs a layer's gradient until its update, clipping all of them at the end."""
    graph = architectures.build("pflego_mlp", (1, 28, 28), 10)
    plain, momentum, clip = (
        _arena(graph, 1.0, t).arena_bytes for t in (Terms(), Terms(momentum=True), Terms(clip=1.0))
    )
    assert clip >= momentum + 4 * 10 * 200  # the classes' weights
    assert momentum >= plain + 4 * 200 * 784 - 16 * 784 * 4  # a plain step does not store the hidden layer's gradient


def test_velocities_exist_for_active_blocks_only() -> None:
    graph = BUILT_IN["fedspu_cifar"]
    spec = ModelSpec.of(graph)
    neurons = NeuronSet.draw(spec, 0.4, rng.stream(1, rng.NEURONS))
    schedule = lower(graph, spec, 16, neurons, terms=Terms(momentum=True))
    assert schedule.state_bytes(4) == 4 * neurons.count(spec)

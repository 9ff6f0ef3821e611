"""The layers' inputs that a frozen step keeps: their active channels or all of them, whichever takes less."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.learning.lowering import lower as lowering
from edgefl.learning.lowering.schedule import Schedule
from edgefl.models.graph import Graph, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

from .graphs import GRAPHS, model, samples

BATCH = 16


def built(name: str) -> Graph:
    return GRAPHS[name] if name in GRAPHS else architectures.build(name, *architectures.EXAMPLES[name])


def drawn(graph: Graph, keep: float) -> NeuronSet | None:
    return None if keep == 1 else NeuronSet.draw(ModelSpec.of(graph), keep, rng.stream(1, rng.NEURONS))


def step(graph: Graph, keep: float) -> Schedule:
    return lowering.lower(graph, ModelSpec.of(graph), BATCH, drawn(graph, keep))


def trained(graph: Graph, backend: str, keep: float) -> dict[str, np.ndarray]:
    learner = GraphLearner(model(graph), backend)
    batches = [np.arange(BATCH, dtype=np.int32), np.arange(BATCH, 0, -1, dtype=np.int32)]
    learner.fit(samples(graph, 2 * BATCH, classes=3), batches, SGD(0.05), FitOptions(drawn(graph, keep)))
    return {name: value.copy() for name, value in learner.read().items()}


def test_a_frozen_step_takes_no_larger_arena_than_the_full_one() -> None:
    for name in architectures.PUBLISHED:
        graph = built(name)
        arenas = {keep: step(graph, keep).arena_bytes for keep in (1, 0.8, 0.6, 0.4, 0.2)}
        assert max(arenas.values()) == arenas[1], (name, arenas)


def test_inputs_are_copied_or_stay_whole_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = {("fedspu_cifar", 0.8): True, ("fedspu_speech", 0.8): False, ("fedspu_speech", 0.2): True}
    copied |= {("recurrent", 0.5): True}
    for (name, keep), is_copied in copied.items():
        graph = built(name)
        before = step(graph, keep)
        smaller = {backend: trained(graph, backend, keep) for backend in ("native", "reference")}
        with monkeypatch.context() as patch:
            patch.setattr(lowering, "min", max, raising=False)
            after = step(graph, keep)
            larger = {backend: trained(graph, backend, keep) for backend in smaller}
        assert before.arena_bytes < after.arena_bytes, (name, keep)
        takes = [any(call.op == "take_channels" for call in schedule.calls) for schedule in (before, after)]
        assert takes == [is_copied, not is_copied], (name, keep)
        for backend, values in smaller.items():
            for parameter, value in values.items():
                np.testing.assert_array_equal(larger[backend][parameter], value, f"{name} {keep} {backend} {parameter}")

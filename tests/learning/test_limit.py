"""A learner with a memory limit: what fits runs, what does not is refused by name before anything is allocated."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import kernels, rng
from edgefl.errors import MemoryLimitError
from edgefl.learning import SGD, FitOptions, GraphLearner
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.neurons.neuron_set import NeuronSet

from .graphs import GRAPHS, model, samples

GRAPH = GRAPHS["plain"]
SIZE = 8
DATA = samples(GRAPH, 64)
BATCHES = [np.arange(start, start + SIZE, dtype=np.int32) for start in range(0, 64, SIZE)]
EXACT = estimate("exact", TrainingConfiguration("plain", GRAPH, SIZE, examples=SIZE))
NEEDED, PACKING = EXACT.total, EXACT.parts["scratch"]


TOO_FEW = NEEDED - EXACT.parts["arena"] // 2  # half of the arena: a step of this model needs more, whatever it does


def held(learner: GraphLearner) -> int:
    """Return the bytes of the learner's own memory. All learners of the process share the kernels' scratch."""
    return sum(size for name, size in learner.memory().items() if name != "scratch")


def test_a_step_runs_within_exactly_what_it_needs() -> None:
    limited, free = GraphLearner(model(GRAPH), limit_bytes=NEEDED), GraphLearner(model(GRAPH))
    assert limited.fit(DATA, BATCHES, SGD(0.1)) == free.fit(DATA, BATCHES, SGD(0.1))
    assert held(limited) == NEEDED - PACKING


def test_a_byte_less_computes_a_part_of_the_step_again() -> None:
    limited, free = GraphLearner(model(GRAPH), limit_bytes=NEEDED - 1), GraphLearner(model(GRAPH))
    assert limited.fit(DATA, BATCHES, SGD(0.1)) == free.fit(DATA, BATCHES, SGD(0.1))
    assert held(limited) < held(free)
    for name, value in free.read().items():
        np.testing.assert_array_equal(limited.read()[name], value)


def test_what_no_plan_fits_is_refused_before_allocation() -> None:
    learner = GraphLearner(model(GRAPH), limit_bytes=TOO_FEW)
    before = {name: value.copy() for name, value in learner.read().items()}
    with pytest.raises(MemoryLimitError, match=rf"train in batches of 8 needs \d+ bytes; limit_bytes={TOO_FEW}$"):
        learner.fit(DATA, BATCHES, SGD(0.1))
    assert learner.memory()["arena"] == learner.memory()["indices"] == 0
    assert PACKING > 0 or kernels.backend().__name__ != "edgefl.kernels.native"
    for name, value in before.items():
        np.testing.assert_array_equal(learner.read()[name], value)
    learner.fit(DATA, [batch[: SIZE // 2] for batch in BATCHES], SGD(0.1))


def test_parameters_beyond_the_limit_are_refused() -> None:
    with pytest.raises(MemoryLimitError, match=r"a learner needs [0-9]+ bytes; limit_bytes=100$"):
        GraphLearner(model(GRAPH), limit_bytes=100)


def test_old_passes_make_room_for_new_ones() -> None:
    momentum = TrainingConfiguration("plain", GRAPH, SIZE, keep=0.5, examples=SIZE, terms=Terms(momentum=True))
    limit = max(NEEDED, estimate("exact", momentum).total) + 64  # the id lists differ a little from draw to draw
    learner = GraphLearner(model(GRAPH), limit_bytes=limit)
    for seed in range(8):
        neurons = NeuronSet.draw(learner.spec, 0.5, rng.stream(seed, rng.NEURONS))
        learner.fit(DATA, BATCHES[:1], SGD(0.1, momentum=0.5), FitOptions(neurons))
        assert held(learner) <= limit
    learner.fit(DATA, BATCHES[:1], SGD(0.1))
    assert held(learner) <= limit


def test_evaluation_takes_chunks_that_fit() -> None:
    limited, free = GraphLearner(model(GRAPH), limit_bytes=NEEDED), GraphLearner(model(GRAPH))
    limited.fit(DATA, BATCHES[:2], SGD(0.1))
    free.fit(DATA, BATCHES[:2], SGD(0.1))
    found, expected = limited.evaluate(DATA), free.evaluate(DATA)
    assert found.correct == expected.correct
    assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-6)
    assert held(limited) <= NEEDED
    assert held(free) > NEEDED


def test_a_clone_has_the_same_limit() -> None:
    twin = GraphLearner(model(GRAPH), limit_bytes=TOO_FEW).clone()
    with pytest.raises(MemoryLimitError):
        twin.fit(DATA, BATCHES, SGD(0.1))

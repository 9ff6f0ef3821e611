"""The simulator's steps without arithmetic: their result follows from every bit that real steps depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from edgefl.learning import GraphLearner, Samples
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.optimizers import SGD
from edgefl.learning.running import graph_learner
from edgefl.models.graph import Model
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.vopr import federation
from tests.vopr.stub_growth import StubGrowth
from tests.vopr.stub_steps import StubSteps

FEDERATION = federation.made(1, "fedavg", clients=2, per_round=2, rounds=2).assembled.federation
SPEC = ModelSpec.of(federation.GRAPH)
ROWS = [np.array(rows, np.int32) for rows in ([0, 1, 2, 3], [4, 5, 6])]
PLAIN = SGD(0.1)
ZEROS = {name: np.zeros(param.shape, np.float32) for name, param in SPEC.params.items()}
ONE = {**ZEROS, "fc2.weight": np.eye(3, 8, dtype=np.float32)}


def learner() -> GraphLearner:
    with mock.patch.object(graph_learner, "TrainingSteps", StubSteps):
        return GraphLearner(Model(federation.GRAPH, FEDERATION.initial()))


def after(
    prepare: Callable[[GraphLearner], object] = lambda learner: None,
    samples: Samples = FEDERATION.data,
    rows: list[np.ndarray] = ROWS,
    optimizer: SGD = PLAIN,
    options: FitOptions = FitOptions(),
) -> bytes:
    """Return the bits of all parameters after a fit, and of its loss."""
    made = learner()
    prepare(made)
    result = made.fit(samples, rows, optimizer, options)
    assert (result.examples, result.steps) == (7, len(rows))
    assert 0 < result.loss_sum <= 7
    return b"".join(made.read()[name].tobytes() for name in sorted(SPEC.params)) + repr(result.loss_sum).encode()


def flipped(array: np.ndarray, at: int) -> np.ndarray:
    """Return a copy in which the last bit of one value is another."""
    found = array.copy()
    found.reshape(-1).view(np.uint32)[at] ^= 1
    return found


def test_equal_fits_end_in_equal_bits() -> None:
    assert after() == after()


@pytest.mark.parametrize(
    "changed",
    [
        {"prepare": lambda made: made.write({"fc1.weight": flipped(made.read()["fc1.weight"], 5)})},
        {"samples": replace(FEDERATION.data, x=flipped(FEDERATION.data.x, 3 * 6))},
        {"samples": replace(FEDERATION.data, y=flipped(FEDERATION.data.y, 6))},
        {"rows": [ROWS[0][::-1].copy(), ROWS[1]]},
        {"rows": [np.concatenate(ROWS)]},
        {"optimizer": SGD(0.1 + 1e-9)},
        {"options": FitOptions(pull=(0.1, ZEROS))},
        {"options": FitOptions(pull=(0.1, ONE))},
        {"options": FitOptions(linear=ONE)},
        {"options": FitOptions(delta="cut")},
        {"options": FitOptions(trainable=["fc1"])},
    ],
    ids=["parameter", "sample", "label", "order", "batches", "optimizer", "pull", "centre", "linear", "delta", "names"],
)
def test_a_change_in_anything_that_steps_depend_on_changes_the_result(changed: dict[str, object]) -> None:
    assert after(**changed) != after()  # type: ignore[arg-type]


def test_only_the_selected_neurons_move_and_every_one_of_them() -> None:
    made, (axis,) = learner(), SPEC.groups
    before = {name: value.copy() for name, value in made.read().items()}
    neurons = NeuronSet.of(SPEC, {axis: [1, 4]})
    made.fit(FEDERATION.data, ROWS, SGD(0.1), FitOptions(trainable=neurons))
    moved = {name: made.read()[name] != before[name] for name in before}
    assert moved["fc1.weight"].all(1).tolist() == [False, True, False, False, True, False, False, False]
    assert moved["fc2.weight"].all(0).tolist() == [False, True, False, False, True, False, False, False]
    assert sum(int(each.sum()) for each in moved.values()) == 2 * 3 + 3 * 2


def test_coordinates_outside_a_mask_stay_zero() -> None:
    made, bits = learner(), np.zeros((8, 3), np.bool_)
    bits[2] = True
    made.restrict(Mask.of(SPEC, {"fc1.weight": bits}))
    made.fit(FEDERATION.data, ROWS, SGD(0.1))
    assert ((made.read()["fc1.weight"] != 0) == bits).all()


def grown(
    prepare: Callable[[GraphLearner], object] = lambda learner: None,
    samples: Samples = FEDERATION.data,
    index: np.ndarray = ROWS[0],
    count: int = 5,
) -> list[int]:
    """Return the coordinates of fc1.weight that a learner finds outside a mask of its first row."""
    with mock.patch.object(graph_learner, "GrowthSearch", StubGrowth):
        made = learner()
    prepare(made)
    outside = np.zeros((8, 3), np.bool_)
    outside[0] = True
    found = made.strongest(samples, index, Mask.of(SPEC, {"fc1.weight": outside}), {"fc1.weight": count})
    return found["fc1.weight"].tolist()


def test_coordinates_that_are_drawn_lie_outside_the_mask_and_depend_on_what_is_searched() -> None:
    found = grown()
    assert found == sorted(set(found)) == grown()
    assert len(found) == 5
    assert min(found) >= 3
    assert grown(count=21) == list(range(3, 24))
    assert grown(lambda made: made.write({"fc1.weight": flipped(made.read()["fc1.weight"], 5)})) != found
    assert grown(samples=replace(FEDERATION.data, x=flipped(FEDERATION.data.x, 0))) != found
    assert grown(index=ROWS[0][::-1].copy()) != found

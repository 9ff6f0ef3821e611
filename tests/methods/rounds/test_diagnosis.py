"""The figures of a diagnosis by hand: Lemma 1's ratio, the overlap of parts, and masks that move."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from edgefl.learning import Samples
from edgefl.methods import METHODS, build
from edgefl.methods.client_state import ClientState
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.mask_store import MASK
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.diagnosis import GradientSquares, chance, diagnosis, drift, gradient_squares, jaccard
from edgefl.methods.task import MODEL
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Add, Linear
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.methods.held import Held

GRAPH = Graph((3,), (Node("a", Linear(3, 2), ("input",)), Node("b", Linear(2, 2), ("a",))))
SPEC = ModelSpec.of(GRAPH)
NOBODY, WHOLE = np.zeros(0, np.int32), Mask({})
FIRST = NeuronSet.of(SPEC, {"a": np.array([0])})


class Slopes(Held):
    """A learner whose gradient is 1 in every coordinate that is not 0, and 2 in the biases."""

    def restrict(self, mask: Mask | None, batch: int = 0) -> None:
        for name, bits in ({} if mask is None else mask.bits).items():
            self.params[name][~bits] = 0

    def gradient(self, samples: Any, index: Any, **rest: Any) -> dict[str, np.ndarray]:
        return {name: np.full_like(w, 2.0) if "bias" in name else np.ones_like(w) for name, w in self.params.items()}


def client_state() -> ClientState:
    ones = {name: np.ones(param.shape, np.float32) for name, param in SPEC.params.items()}
    data = Samples(np.zeros((4, 3), np.float32), np.zeros(4, np.int32))
    return ClientState(0, 1, SPEC, Slopes(SPEC, ones), data, np.arange(4), NOBODY, NOBODY)  # type: ignore[arg-type]


def plan(neurons: NeuronSet | None, mask: Mask = WHOLE, client: int = 0, **more: Any) -> Plan:
    ones = {name: np.ones(param.shape, np.float32) for name, param in SPEC.params.items()}
    payload = take(ones, SPEC, neurons if neurons is not None else mask)
    return Plan("train", 1, client, neurons, {MODEL: payload}, **more)


def test_the_squares_of_a_gradient_at_one_of_two_neurons() -> None:
    """10 weights with slope 1 and 4 biases with slope 2. Trained are 3 + 2 weights, 1 hidden bias and 2 others."""
    found = gradient_squares(build("fedspu", {}), client_state(), plan(FIRST))
    assert found == GradientSquares(full=10 + 16, trained=3 + 2 + 4 + 8, expected=17.0)


def test_a_client_without_a_model_has_no_gradient_beyond_its_neurons() -> None:
    assert gradient_squares(build("random-dropout", {}), client_state(), plan(FIRST)) is None


def test_the_squares_of_a_gradient_at_a_mask() -> None:
    mask = Mask.of(SPEC, {"a.weight": np.array([[1, 0, 0], [0, 0, 1]], bool)})
    client = client_state()
    found = gradient_squares(build("fedspa", {}), client, plan(None, mask))
    assert found == GradientSquares(full=26, trained=22, expected=None)
    np.testing.assert_array_equal(client.learner.read()["a.weight"], mask.bits["a.weight"])


@pytest.mark.parametrize("active", [1, 2, 3])
def test_the_chance_of_a_coordinate_is_its_share_of_all_draws(active: int) -> None:
    """Three neurons `a`, which also leave `b`, as both are added, and four neurons `c`: all draws, counted."""
    nodes = (
        Node("a", Linear(2, 3), ("input",)), Node("b", Linear(3, 3), ("a",)), Node("sum", Add(), ("a", "b")),
        Node("c", Linear(3, 4), ("sum",)), Node("d", Linear(4, 2), ("c",)),
    )  # fmt: skip
    spec = ModelSpec.of(Graph((2,), nodes))
    first, second = spec.groups
    assert (spec.groups[first], spec.groups[second]) == (3, 4)
    counts: dict[str, Any] = dict.fromkeys(spec.learned, 0.0)
    draws = [(a, c) for a in combinations(range(3), active) for c in combinations(range(4), 2)]
    for a, c in draws:
        neurons = NeuronSet.of(spec, {first: np.array(a), second: np.array(c)})
        for name, (rows, cols) in neurons.blocks(spec, ("learn",)).items():
            bits = np.zeros(spec.params[name].shape)
            whole = [np.arange(size) if ids is None else ids for ids, size in zip((rows, cols), bits.shape)]
            bits[np.ix_(*whole)] = 1
            counts[name] = counts[name] + bits / len(draws)
    for name, expected in counts.items():
        np.testing.assert_allclose(chance(neurons, spec.params[name]), expected, atol=1e-12)
    assert counts["c.weight"][0, 0] == pytest.approx(active / 3 * 2 / 4)  # Lemma 1's p^2 holds between hidden layers


def test_overlap_and_drift_by_hand() -> None:
    """1 of 3 coordinates is in both. Of two coordinates one leaves, and of a whole parameter of four one leaves."""
    first, second = ({"w": np.array(bits, bool)} for bits in ([1, 1, 0, 0], [1, 0, 1, 0]))
    assert jaccard(first, second) == 1 / 3
    assert jaccard(first, {"v": first["w"]}) == 0.0
    assert drift(Mask(first), Mask(second)) == 0.5
    assert drift(Mask({}), Mask({"w": np.array([1, 1, 0, 1], bool)})) == 0.25
    assert drift(Mask(first), Mask({})) == drift(Mask({}), Mask({})) == 0.0


def test_the_entry_of_a_log_record() -> None:
    """Two clients at neuron 0 and at neuron 1 train 8 of 14 coordinates each, and both train 2 biases alone."""
    other = NeuronSet.of(SPEC, {"a": np.array([1])})
    plans = [plan(FIRST, client=0, settings={"keep": 0.5}), plan(other, client=1, settings={"keep": 0.5})]
    squares = {0: GradientSquares(4.0, 1.0, 2.0), 1: GradientSquares(16.0, 12.0, 8.0)}
    found = diagnosis([(each, Reply(1, each.client)) for each in plans], squares, SPEC)["diagnosis"]
    assert found["clients"][0] == {
        "client": 0,
        "gradient_norm": 2.0,
        "trained_gradient_norm": 1.0,
        "ratio": 0.25,
        "expected_ratio": 0.5,
        "p_squared": 0.25,
    }
    assert (found["overlap"], found["ratio"], found["gradient_norm"], found["mask_drift"]) == (2 / 14, 0.5, 3.0, None)
    assert diagnosis([], {}, SPEC) == {}


def test_a_mask_that_a_reply_brings_is_compared_with_the_mask_of_the_plan() -> None:
    before, after = (Mask.of(SPEC, {"b.weight": np.array(bits, bool)}) for bits in ([[1, 1], [0, 0]], [[1, 0], [1, 0]]))
    asked = plan(None, before, expects={MODEL: ExpectedPayload("masked", None, before), MASK: ExpectedPayload("mask")})
    reply = Reply(1, 0, masks={MASK: after})
    assert diagnosis([(asked, reply)], {}, SPEC)["diagnosis"]["mask_drift"] == 0.5


def test_the_methods_whose_clients_train_parts_are_these() -> None:
    whole = {
        "fedavg", "local", "fedavg-ft", "fedprox", "scaffold", "fedumf", "feddyn", "feddc", "fedumf-feddc", "pflego",
        "subsampling", "fedper", "fedrep", "fedbabu", "lg-fedavg", "fedrecon", "ditto", "apfl",
    }  # fmt: skip
    assert {name for name, make in METHODS.items() if not make().trains_parts} == whole

"""The mean of whole numbers: its sums have no order, and it is the weighted mean within the rounding."""

from __future__ import annotations

import hashlib
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.exact_mean import ExactMean
from edgefl.methods.fixed_point import LEARNED, STATISTICS, FixedPoint, RoundingName, rounded_changes
from edgefl.methods.task import MODEL
from edgefl.methods.weighted_mean import Mean
from edgefl.models.neurons.block_index import Axes, AxisIds, Flat
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.update import Block, Update

SPEC = ModelSpec(
    {"w": ParamSpec((6, 5), "learn", AxisSpec("a")), "var": ParamSpec((6,), "stat", AxisSpec("a"))}, {"a": 6}, b""
)
NAME = RoundingName(7, 3, MODEL)
DRAW = np.random.RandomState(1)
OLD = {"w": DRAW.randn(6, 5).astype(np.float32), "var": (10 * DRAW.rand(6)).astype(np.float32)}
WEIGHTS = (3, 1, 250, 17, 4)


def update(client: int) -> Update:
    """Return values of all neurons, of three neurons, or at single coordinates, by the client."""
    draw = np.random.RandomState(client)
    if client % 3 == 1:
        rows = np.array([0, 2, 5], np.int32)
        values = OLD["w"][rows] + 0.1 * draw.randn(3, 5)
        return Update({"w": Block((6, 5), Axes(AxisIds(rows, 6)), values.astype(np.float32))})
    if client % 3 == 2:
        at = np.array([1, 4, 29], np.uint32)
        values = OLD["w"].reshape(-1)[at] + 0.1 * draw.randn(3)
        return Update({"w": Block((6, 5), Flat(at, 30), values.astype(np.float32))})
    whole = {name: (old + 0.1 * draw.randn(*old.shape)).astype(np.float32) for name, old in OLD.items()}
    return Update({name: Block(value.shape, None, value) for name, value in whole.items()})


def exact(clients: tuple[int, ...]) -> ExactMean:
    mean = ExactMean(SPEC, OLD, NAME)
    for client in clients:
        mean.add(client, update(client), WEIGHTS[client])
    return mean


def digest(mean: Mean) -> str:
    mean.settle()
    return hashlib.sha256(b"".join(value.tobytes() for value in mean.over(OLD).values())).hexdigest()


def test_any_order_and_any_split_give_the_same_bits() -> None:
    found = {digest(exact(order)) for order in permutations(range(5))}
    for cut in range(1, 5):
        one, other = exact(tuple(range(cut))), exact(tuple(range(cut, 5)))
        one.merge(other)
        found.add(digest(one))
    assert len(found) == 1


def test_it_is_the_weighted_mean_within_a_step() -> None:
    plain, whole = Mean(SPEC), exact((0, 1, 2, 3, 4))
    for client in range(5):
        plain.add(client, update(client), WEIGHTS[client])
    whole.settle()
    for name, wanted in plain.over(OLD).items():
        step = {"w": LEARNED, "var": STATISTICS}[name].step
        np.testing.assert_allclose(whole.over(OLD)[name], wanted, rtol=0, atol=step + 1e-6)
    assert whole.clients == [0, 1, 2, 3, 4] and whole.weights == list(WEIGHTS)


def test_totals_and_weights_are_those_that_methods_read() -> None:
    whole = exact((0, 1))
    whole.settle()
    np.testing.assert_allclose(whole.total["w"] / whole.weight["w"], whole.over(OLD)["w"], atol=1e-6)
    assert whole.weight["w"][1, 0] == WEIGHTS[0] and whole.weight["w"][0, 0] == WEIGHTS[0] + WEIGHTS[1]


def test_coordinates_that_nobody_sent_or_changed_keep_their_bits() -> None:
    mean = ExactMean(SPEC, OLD, NAME)
    mean.add(4, Update({"w": Block((6, 5), None, OLD["w"])}), 999)
    mean.settle()
    new = mean.over(OLD)
    assert all(new[name].tobytes() == old.tobytes() for name, old in OLD.items())


def test_a_change_beyond_the_limit_is_limited_and_counted() -> None:
    mean = ExactMean(SPEC, OLD, NAME)
    far = OLD["w"] + np.where(np.arange(30).reshape(6, 5) < 7, 100, 0).astype(np.float32)
    mean.add(0, Update({"w": Block((6, 5), None, far)}), 5)
    mean.settle()
    change = mean.over(OLD)["w"] - OLD["w"]
    np.testing.assert_allclose(change.reshape(-1)[:7], LEARNED.clip, atol=1e-5)
    assert not change.reshape(-1)[7:].any() and mean.clipped == 7


def test_rounding_has_the_change_as_its_mean() -> None:
    """Over 4,000 clients the mean of a change of .3 steps is .3 steps within five standard errors."""
    old = {"w": np.zeros((6, 5), np.float32)}
    value = Update({"w": Block((6, 5), None, np.full((6, 5), 0.3 * LEARNED.step, np.float32))})
    kinds = {"w": "learn"}
    found = [rounded_changes(value, old, kinds, NAME, client).values["w"] for client in range(4000)]  # type: ignore[arg-type]
    assert set(np.unique(found)) == {0, 1}
    assert abs(np.mean(found) - 0.3) < 5 * np.sqrt(0.21 / (30 * 4000))


def test_chance_depends_on_client_round_seed_and_payload() -> None:
    change = update(0)
    names = [NAME, NAME._replace(seed=8), NAME._replace(round=4), NAME._replace(payload="body")]
    kinds = {name: param.kind for name, param in SPEC.params.items()}
    drawn = [rounded_changes(change, OLD, kinds, name, 0).values["w"].tobytes() for name in names]
    drawn.append(rounded_changes(change, OLD, kinds, NAME, 1).values["w"].tobytes())
    assert len(set(drawn)) == 5
    assert rounded_changes(change, OLD, kinds, NAME, 0).values["w"].tobytes() == drawn[0]


@given(clip=st.integers(1, 2**20), weights=st.lists(st.integers(1, 10**6), min_size=1, max_size=50))
def test_honest_clients_never_wrap_a_sum(clip: int, weights: list[int]) -> None:
    """At the extremes all clients send the largest change of one sign."""
    fixed = FixedPoint(2.0**-10, clip * 2.0**-10)
    bits, most = fixed.bits(sum(weights)), fixed.most * sum(weights)
    assert -(2 ** (bits - 1)) <= -most and most < 2 ** (bits - 1)


@pytest.mark.parametrize("weight", [0.5, 0, -1, float("nan")])
def test_weights_are_whole_numbers_above_zero(weight: float) -> None:
    with pytest.raises(ValueError, match=r"weight=.* of client 2; expected a whole number above 0"):
        ExactMean(SPEC, OLD, NAME).add(2, update(0), weight)


def test_a_client_counts_once_and_sums_cannot_overflow() -> None:
    mean = exact((0,))
    with pytest.raises(ValueError, match="client=0 a second time"):
        mean.add(0, update(0), 1)
    with pytest.raises(ValueError, match="client=0 a second time"):
        mean.merge(exact((0,)))
    with pytest.raises(ValueError, match="fit into 62 bits"):
        mean.add(1, update(1), 2**46)


@pytest.mark.parametrize(("step", "clip"), [(0.3, 3.0), (0.0, 1.0), (0.25, 0.3), (0.5, 0.25), (float("inf"), 1.0)])
def test_steps_are_powers_of_two_and_limits_multiples_of_them(step: float, clip: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        FixedPoint(step, clip)


def test_the_setting_is_named_exact() -> None:
    accumulator = Accumulator(SPEC, AggregationRule.parse("exact"), {MODEL: OLD}, 7, 3)
    accumulator.mean.add(1, update(1), 5)
    accumulator.of("control").add(1, update(2), 1)
    accumulator.settle()
    assert accumulator.clipped == 0 and isinstance(accumulator.mean, ExactMean)
    assert accumulator.of("control").over({"w": np.zeros((6, 5), np.float32)})["w"].any()

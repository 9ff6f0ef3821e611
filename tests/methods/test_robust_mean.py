"""The trimmed mean and the median of partial models, on one row of numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.fixed_point import RoundingName
from edgefl.methods.robust_mean import center
from edgefl.methods.task import MODEL
from edgefl.methods.weighted_mean import Mean
from edgefl.models.neurons.block_index import Axes, AxisIds, Flat
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.update import Block, Update

SPEC = ModelSpec({"w": ParamSpec((3, 2), "learn", AxisSpec("a"))}, {"a": 3}, b"")
OLD = {"w": np.array([[10, 20], [30, 40], [50, 60]], np.float32)}


def row(first: float, second: float, *others: list[float]) -> Update:
    """Return an update of neuron 0 alone, or of all neurons."""
    index = None if others else Axes(AxisIds(np.array([0], np.int32), 3))
    return Update({"w": Block((3, 2), index, np.array([[first, second], *others], np.float32))})


def aggregated(
    aggregation: str, *updates: Update, weights: list[float] | None = None, changes: bool = False
) -> list[list[float]]:
    accumulator = Accumulator(SPEC, AggregationRule.parse(aggregation), {} if changes else {MODEL: OLD})
    for client, update in enumerate(updates):
        accumulator.mean.add(client, update, 1 if weights is None else weights[client])
    accumulator.settle()
    found: list[list[float]] = accumulator.mean.over(OLD)["w"].tolist()
    return found


def test_the_largest_and_the_smallest_of_each_coordinate_are_left_out() -> None:
    found = aggregated("trimmed:1", row(1, 5), row(2, 3e38), row(3, 6), row(9, 7), row(-3e38, 8))
    assert found[0] == [2, 7]


def test_the_median_is_the_middle_one_or_the_mean_of_the_middle_two() -> None:
    assert aggregated("median", row(1, 5), row(2, 3e38), row(9, 6))[0] == [2, 6]
    assert aggregated("median", row(1, 5), row(2, 3e38), row(9, 6), row(4, 8))[0] == [3, 7]


def test_clients_count_once_whatever_they_claim() -> None:
    updates = row(1, 5), row(2, 6), row(9, 7)
    assert aggregated("median", *updates, weights=[1, 1, 2**53]) == aggregated("median", *updates)


def test_the_old_value_stands_for_clients_that_lack() -> None:
    """Two trained neuron 0: with the old 10 and 20 they are three, of which the middle one is taken."""
    assert aggregated("trimmed:1", row(12, 3e38), row(14, 19))[0] == [12, 20]
    assert aggregated("median", row(12, 3e38), row(14, 19))[0] == [12, 20]
    assert aggregated("trimmed:2", row(12, 22), row(14, 24), row(16, 26))[0] == [12, 22]


@pytest.mark.parametrize("aggregation", ["trimmed:1", "median"])
def test_what_one_client_alone_trained_stays(aggregation: str) -> None:
    assert aggregated(aggregation, row(3e38, -3e38)) == OLD["w"].tolist()


def test_a_change_that_one_client_alone_sent_counts_as_none() -> None:
    """Where replies carry changes, clients without the coordinate have not changed it."""
    accumulator = Accumulator(SPEC, AggregationRule.parse("median"), {})
    accumulator.of("gradient").add(0, row(7, -7), 3)
    accumulator.settle()
    assert accumulator.of("gradient").total["w"].tolist() == [[0, 0], [0, 0], [0, 0]]


def test_coordinates_that_nobody_sent_keep_their_bits() -> None:
    updates = [row(1, 2), row(1, 2), row(1, 2)]
    assert aggregated("median", *updates) == [[1, 2], [30, 40], [50, 60]]


def test_full_and_partial_clients_are_ranked_where_they_trained() -> None:
    whole = [row(n, n, [n, n], [n, n]) for n in (1, 2, 6)]
    assert aggregated("trimmed:1", *whole, row(3, 3)) == [[2.5, 2.5], [2, 2], [2, 2]]


def test_flat_coordinates_are_ranked_where_they_are() -> None:
    flat = [Update({"w": Block((3, 2), Flat(np.array([1, 5], np.uint32), 6), np.float32([n, -n]))}) for n in (1, 2, 6)]
    assert aggregated("median", *flat) == [[10, 2], [30, 40], [50, -2]]


def test_totals_are_the_mean_times_the_weights() -> None:
    """Methods that step along a sum of n_k g_k read it so."""
    accumulator = Accumulator(SPEC, AggregationRule.parse("median"), {MODEL: OLD})
    for client, (value, weight) in enumerate([(1, 3), (2, 4), (9, 5)]):
        accumulator.mean.add(client, row(value, value), weight)
    accumulator.settle()
    assert accumulator.mean.total["w"][0].tolist() == [24, 24]
    assert (accumulator.mean.clients, accumulator.mean.weights) == ([0, 1, 2], [3, 4, 5])


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=7), st.integers(1, 3), st.data())
def test_so_many_liars_never_leave_the_range_of_the_others(honest: list[float], trim: int, data: st.DataObject) -> None:
    lies = data.draw(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), max_size=trim))
    old = np.float32([7])
    blocks = [Block((1,), None, np.float32([value])) for value in (*honest, *lies)]
    (found,) = center(blocks, old, trim)
    near = 1e-9 * max(map(abs, (*honest, 7)))  # the mean of equal numbers rounds
    assert min(*honest, 7) - near <= found <= max(*honest, 7) + near


@given(st.permutations(range(5)))
def test_the_order_of_replies_does_not_matter(order: list[int]) -> None:
    values: NDArray[np.float32] = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    blocks = [Block((6,), None, each) for each in values]
    shuffled = [blocks[i] for i in order]
    assert center(blocks, values[0], 1).tobytes() == center(shuffled, values[0], 1).tobytes()


def test_clients_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match=r"client=1; expected an id above 1"):
        aggregated_twice = Accumulator(SPEC, AggregationRule.parse("median"), {MODEL: OLD}).mean
        aggregated_twice.add(1, row(1, 1), 1)
        aggregated_twice.add(1, row(1, 1), 1)


def test_names_stand_for_aggregations() -> None:
    assert AggregationRule.parse("trimmed:2") == AggregationRule("trimmed", 2)
    assert [AggregationRule.parse(name).fewest for name in ("mean", "clipped", "trimmed:2", "median")] == [1, 1, 5, 3]
    assert type(AggregationRule.parse("clipped").mean(SPEC, OLD, RoundingName(0, 1, MODEL))) is Mean


@pytest.mark.parametrize("name", ["", "trimmed", "trimmed:0", "trimmed:x", "median:1", "krum", "trimmed:-1"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"; expected mean, exact, clipped, trimmed:K or median with K >= 1"):
        AggregationRule.parse(name)

"""The weighted mean of partial models, on one row of numbers that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.methods.weighted_mean import Mean
from edgefl.models.neurons.block_index import Axes, AxisIds, Flat
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.update import Block, Update

SPEC = ModelSpec({"w": ParamSpec((3, 2), "learn", AxisSpec("a"))}, {"a": 3}, b"")
OLD = {"w": np.array([[10, 20], [30, 40], [50, 60]], np.float32)}


def rows(*ids: int, values: list[list[float]]) -> Update:
    index = Axes(AxisIds(np.array(ids, np.int32), 3)) if len(ids) < 3 else None
    return Update({"w": Block((3, 2), index, np.array(values, np.float32))})


def test_full_and_partial_client_are_averaged_together() -> None:
    """t_fedspu_mixed_average, invariant 1.5.5: 1 from a full client and 3 from a partial one give 2, not 1 or 3."""
    mean = Mean(SPEC)
    mean.add(0, rows(0, 1, 2, values=[[1, 1], [1, 1], [1, 1]]), 1)
    mean.add(1, rows(1, values=[[3, 3]]), 1)
    assert mean.over(OLD)["w"].tolist() == [[1, 1], [2, 2], [1, 1]]


def test_columns_alone_are_averaged_in_every_row() -> None:
    spec = ModelSpec({"w": ParamSpec((2, 3), "learn", None, AxisSpec("a"))}, {"a": 3}, b"")
    columns = Axes(None, AxisIds(np.array([0, 2], np.int32), 3))
    mean = Mean(spec)
    mean.add(0, Update({"w": Block((2, 3), columns, np.array([[1, 2], [3, 4]], np.float32))}), 1)
    old = {"w": np.array([[10, 20, 30], [40, 50, 60]], np.float32)}
    assert mean.over(old)["w"].tolist() == [[1, 20, 2], [3, 50, 4]]


def test_coordinates_that_nobody_sent_keep_their_bits() -> None:
    """Invariant 1.5.4, first half."""
    old = {"w": np.array([[np.nan, -0.0], [30, 40], [1e-45, 60]], np.float32)}
    mean = Mean(SPEC)
    mean.add(4, rows(1, values=[[7, 8]]), 5)
    new = mean.over(old)["w"]
    assert new[[0, 2]].tobytes() == old["w"][[0, 2]].tobytes()
    assert new[1].tolist() == [7, 8]


@pytest.mark.parametrize("examples", [1, 3, 7, 1163])
def test_a_lone_clients_values_arrive_bit_for_bit(examples: int) -> None:
    """Invariant 1.5.4, second half: n * v / n is v, for values that are no round numbers."""
    values = np.random.default_rng(0).standard_normal((2, 2)).astype(np.float32)
    mean = Mean(SPEC)
    mean.add(0, rows(0, 2, values=values.tolist()), examples)
    assert mean.over(OLD)["w"][[0, 2]].tobytes() == values.tobytes()


def test_weights_are_examples() -> None:
    mean = Mean(SPEC)
    mean.add(0, rows(0, values=[[1, 0]]), 3)
    mean.add(2, rows(0, values=[[5, 4]]), 1)
    assert mean.over(OLD)["w"][0].tolist() == [2, 1]


def test_flat_coordinates_are_averaged_alone() -> None:
    mean = Mean(SPEC)
    flat = Block((3, 2), Flat(np.array([0, 5], np.uint32), 6), np.array([2, 4], np.float32))
    mean.add(0, Update({"w": flat}), 1)
    assert mean.over(OLD)["w"].tolist() == [[2, 20], [30, 40], [50, 4]]


def test_old_values_are_not_changed() -> None:
    mean = Mean(SPEC)
    mean.add(0, rows(0, values=[[1, 1]]), 1)
    before = OLD["w"].copy()
    mean.over(OLD)
    assert np.array_equal(OLD["w"], before)


def test_clients_out_of_order_are_refused() -> None:
    mean = Mean(SPEC)
    mean.add(3, rows(0, values=[[1, 1]]), 1)
    with pytest.raises(ValueError, match=r"client=3; expected an id above 3"):
        mean.add(3, rows(0, values=[[1, 1]]), 1)


def test_a_weight_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"weight=0 of client 1; expected weight > 0"):
        Mean(SPEC).add(1, rows(0, values=[[1, 1]]), 0)


@pytest.mark.parametrize("part", [None, 0, 1, 2, 3])
def test_one_weight_for_all_coordinates_gives_the_bits_of_a_weight_for_each(part: int | None) -> None:
    """Three whole updates, and at one place a partial one, are averaged in both forms."""
    draw = np.random.default_rng(5)
    updates = [rows(0, 1, 2, values=draw.standard_normal((3, 2)).tolist()) for _ in range(3)]
    if part is not None:
        updates.insert(part, rows(1, values=draw.standard_normal((1, 2)).tolist()))
    together, apart = Mean(SPEC), Mean(SPEC)
    assert not apart.weight["w"].any()  # the array is there now
    for client, update in enumerate(updates):
        for mean in (together, apart):
            mean.add(client, update, 3 + client / 7)
    found = together.over(OLD)["w"]
    assert found.tobytes() == apart.over(OLD)["w"].tobytes()
    assert not np.shares_memory(found, together.total["w"])
    assert together.weight["w"].tobytes() == apart.weight["w"].tobytes()

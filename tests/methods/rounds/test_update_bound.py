"""The bound on how far replies may move a model: the rule, on parameters of a few numbers, checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.methods.plan import Reply
from edgefl.methods.rounds import change_bound
from edgefl.methods.rounds.change_bound import (
    ALL,
    FACTOR,
    FLOOR,
    FLOOR_OF_STATISTICS,
    FOR_CHANGES,
    LARGEST,
    UpdateNormBound,
)
from edgefl.methods.task import MODEL
from edgefl.models.neurons.block_index import Axes, AxisIds
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.update import Block, SquaredChange, Update

SPEC = ModelSpec(
    {"w": ParamSpec((2, 2), "learn", AxisSpec("a")), "mean": ParamSpec((2,), "stat", AxisSpec("a"))}, {"a": 2}, b""
)
OLD = {MODEL: {"w": np.full((2, 2), 3, np.float32), "mean": np.zeros(2, np.float32)}}
NONE = {MODEL: {"w": np.zeros((2, 2), np.float32), "mean": np.zeros(2, np.float32)}}


def reply(client: int, w: float, mean: float = 0.0, old: float = 3.0) -> Reply:
    blocks = {
        "w": Block((2, 2), None, np.full((2, 2), old + w, np.float32)),
        "mean": Block((2,), None, np.full(2, mean, np.float32)),
    }
    return Reply(1, client, {MODEL: Update(blocks)}, examples=1, steps=1)


def test_lengths_are_root_mean_squares_of_changes() -> None:
    found = change_bound.lengths(reply(0, 2.0, -5.0), OLD, SPEC)
    assert found == {MODEL: {"w": 2.0, "mean": 5.0, ALL: 2.0}}


def test_the_length_of_a_part_is_that_of_what_was_trained() -> None:
    half = Block((2, 2), Axes(AxisIds(np.array([1], np.int32), 2)), np.float32([[4, 2]]))
    found = change_bound.lengths(Reply(1, 0, {MODEL: Update({"w": half})}), OLD, SPEC)
    assert found[MODEL]["w"] == 1.0


def test_a_change_that_was_measured_in_copying_counts_for_the_very_values_it_was_measured_from() -> None:
    old = OLD[MODEL]["w"]
    measured = Block((2, 2), None, np.full((2, 2), 5, np.float32), SquaredChange(old, 36.0))
    assert change_bound.square_sum(measured, old) == 36.0
    assert change_bound.square_sum(measured, old.copy()) == 16.0
    shorter = change_bound.clipped(
        Reply(1, 0, {MODEL: Update({"w": measured})}), {MODEL: {"w": 3.0}}, {MODEL: {"w": 1.5}}, OLD
    )
    assert change_bound.square_sum(shorter.payload[MODEL].blocks["w"], old) == 4.0


def test_a_payload_of_changes_is_measured_as_it_is() -> None:
    assert change_bound.lengths(reply(0, 2.0, old=0.0), {}, SPEC)[MODEL]["w"] == 2.0


def test_the_median_of_an_even_number_is_the_lower_one() -> None:
    found = [change_bound.lengths(reply(k, w), OLD, SPEC) for k, w in enumerate([8.0, 1.0, 4.0, 2.0])]
    assert change_bound.medians(found)[MODEL]["w"] == 2.0


def most(*changes: float, old: change_bound.Old = NONE, mean: float = 0.0) -> change_bound.Lengths:
    replies = [reply(k, w, mean, old=float(old[MODEL]["w"][0, 0])) for k, w in enumerate(changes)]
    return change_bound.bounds([change_bound.lengths(each, old, SPEC) for each in replies], FACTOR, old, SPEC)


def test_the_bound_is_a_multiple_of_the_median() -> None:
    assert most(1, 2, 1e30)[MODEL]["w"] == 2 * FACTOR


def test_a_parameter_that_most_leave_alone_has_the_bound_of_all_together() -> None:
    assert most(1, 2, 3, mean=0.0)[MODEL]["mean"] == 2 * FACTOR


def test_a_share_of_the_parameter_itself_is_always_allowed() -> None:
    """Where all clients have converged, a client with something new to learn is not a liar."""
    assert most(1e-9, 0, 0, old=OLD)[MODEL]["w"] == pytest.approx(3 * FLOOR)


def test_running_statistics_are_allowed_more_of_themselves() -> None:
    """A client with a batch of one sample has a variance like nobody's."""
    old = {MODEL: {"w": OLD[MODEL]["w"], "mean": np.full(2, 5, np.float32)}}
    assert most(1e-9, 0, 0, old=old, mean=5.0)[MODEL]["mean"] == pytest.approx(5 * FLOOR_OF_STATISTICS)


def test_changes_are_allowed_more() -> None:
    found = [change_bound.lengths(reply(k, w, old=0.0), {}, SPEC) for k, w in enumerate([1, 2, 3])]
    assert change_bound.bounds(found, FACTOR, {}, SPEC)[MODEL]["w"] == 2 * FACTOR * FOR_CHANGES


def test_nothing_goes_beyond_the_largest() -> None:
    """A round's only reply is an example: its length is the median."""
    assert most(3e38)[MODEL]["w"] == LARGEST


def test_the_words_name_the_worst_parameter() -> None:
    limit = most(1, 1, 1)
    assert change_bound.beyond(change_bound.lengths(reply(0, 2.0, 3.0, old=0), NONE, SPEC), limit) is None
    words = change_bound.beyond(change_bound.lengths(reply(0, 2 * FACTOR, 5 * FACTOR, old=0), NONE, SPEC), limit)
    assert words == f"changes model/mean by {5 * FACTOR:.3g} (root mean square); expected at most {FACTOR:.3g}"


def test_a_change_that_is_too_long_is_shortened_in_its_direction() -> None:
    long = reply(0, 3e38, 1.0)
    short = change_bound.clipped(long, change_bound.lengths(long, OLD, SPEC), {MODEL: {"w": 2.0, "mean": 1.0}}, OLD)
    assert short.payload[MODEL].blocks["w"].values.tolist() == [[5, 5], [5, 5]]
    assert short.payload[MODEL].blocks["mean"] is long.payload[MODEL].blocks["mean"]


def test_a_reply_within_the_bound_is_not_touched() -> None:
    honest = reply(0, 2.0)
    found = change_bound.lengths(honest, OLD, SPEC)
    assert change_bound.clipped(honest, found, found, OLD) is honest


def test_names_stand_for_bounds() -> None:
    assert UpdateNormBound.parse("off").kind == "off"
    assert UpdateNormBound.parse("clip") == UpdateNormBound("clip", FACTOR)
    assert UpdateNormBound.parse("refuse:2.5") == UpdateNormBound("refuse", 2.5)
    assert UpdateNormBound() == UpdateNormBound.parse("refuse")


@pytest.mark.parametrize("name", ["", "off:1", "clip:", "refuse:0.5", "clip:nan", "clip:inf", "drop"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected off, clip, clip:FACTOR, refuse or refuse:FACTOR with a finite"):
        UpdateNormBound.parse(name)

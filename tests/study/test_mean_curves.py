"""The curves of a method over its seeds, on curves of a few points."""

from __future__ import annotations

import math
from dataclasses import replace

from edgefl.study.mean_curves import MeanCurve, mean_curve
from edgefl.study.summary import Summary
from tests.study.test_study_comparison import run


def seed(*points: tuple[int, float | None]) -> Summary:
    """A run with an accuracy after each of these rounds."""
    return replace(run("fedspu", [1, 1, 1, 1]), curve=[{"round": at, "accuracy": value} for at, value in points])


def over(*seeds: Summary) -> MeanCurve:
    return mean_curve(seeds, lambda point: point["round"], lambda point: point["accuracy"])


def test_of_one_seed_the_mean_is_its_curve_and_there_is_no_spread() -> None:
    found = over(seed((1, 0.25), (2, 0.5)))
    assert (found.xs, found.ys, found.spread) == ([1, 2], [0.25, 0.5], [])
    assert found.seeds == [([1, 2], [0.25, 0.5])]


def test_mean_and_standard_deviation_are_of_each_round() -> None:
    """The mean of 1 and 3 is 2, and their deviation, of n - 1, is the root of 2."""
    found = over(seed((1, 1.0), (2, 5.0)), seed((1, 3.0), (2, 5.0)))
    assert (found.xs, found.ys, found.spread) == ([1, 2], [2.0, 5.0], [math.sqrt(2), 0.0])


def test_a_seed_that_ended_early_keeps_its_last_point() -> None:
    """The second seed ends after round 3, at which the first was not evaluated."""
    found = over(seed((2, 0.0), (4, 2.0), (6, 4.0)), seed((2, 2.0), (3, 6.0)))
    assert (found.xs, found.ys) == ([2, (4 + 3) / 2, (6 + 3) / 2], [1.0, 4.0, 5.0])
    assert found.seeds[1] == ([2, 3], [2.0, 6.0])


def test_no_mean_hides_a_seed_without_a_number() -> None:
    found = over(seed((1, None), (2, 1.0)), seed((1, 3.0), (2, 2.0)))
    assert math.isnan(found.ys[0]) and math.isnan(found.spread[0]) and found.ys[1] == 1.5

"""Scales, curves and their points, by hand."""

from __future__ import annotations

import re

import pytest

from edgefl.study.report.chart_scale import BYTES, SECONDS, AxisScale, fitted, tick_text, unit_for
from edgefl.study.report.interval_chart import IntervalRow, interval_chart
from edgefl.study.report.line_chart import as_steps
from edgefl.study.report.mean_curves import CurvePoint, mean_curve, thinned
from tests.study.report.made_run import made_run


@pytest.mark.parametrize(
    ("low", "high", "most", "is_whole", "ticks"),
    [
        (0.0, 10.0, 6, False, [0, 2, 4, 6, 8, 10]),
        (0.0, 10.0, 6, True, [0, 2, 4, 6, 8, 10]),
        (0.0, 2.0, 7, True, [0, 1, 2]),
        (0.0, 1.0, 7, True, [0, 1]),
        (9.6, 10.4, 7, True, [10]),
        (0.0, 500.0, 7, True, [0, 100, 200, 300, 400, 500]),
        (-2.0, 3.0, 7, False, [-2, -1, 0, 1, 2, 3]),
    ],
)
def test_ticks_are_round(low: float, high: float, most: int, is_whole: bool, ticks: list[float]) -> None:
    assert AxisScale(low, high, 0, 1).ticks(most, is_whole) == pytest.approx(ticks)


def test_a_scale_of_far_values_is_logarithmic() -> None:
    found = fitted([0.01, 1.0], 0.0, 100.0)
    assert found.is_log and found.ticks(6) == pytest.approx([0.01, 0.03, 0.1, 0.3, 1])
    assert found.place(0.1) == pytest.approx(50.0)
    assert not fitted([0.0, 1.0], 0.0, 100.0).is_log


@pytest.mark.parametrize("values", [[], [0.5], [0.0], [1.0, 1.0]])
def test_a_scale_of_one_value_has_two_ends(values: list[float]) -> None:
    found = fitted(values, 0.0, 100.0, (0.0, 1.0))
    assert 0 <= found.low < found.high and found.ticks(6)


def test_a_value_beyond_the_ends_lies_at_an_end() -> None:
    assert [AxisScale(0, 10, 0, 100).place(value) for value in (-5, 0, 5, 10, 50)] == [0, 0, 50, 100, 100]


@pytest.mark.parametrize(
    ("most", "units", "name"),
    [(1.0, BYTES, "B"), (1999.0, BYTES, "B"), (2000.0, BYTES, "kB"), (3e6, BYTES, "MB"), (130.0, SECONDS, "min")],
)
def test_units_are_the_largest_of_which_there_are_two(most: float, units: tuple, name: str) -> None:
    assert unit_for(most, units).name == name


def test_ticks_are_written_without_digits_that_say_nothing() -> None:
    assert [tick_text(value) for value in (0.0, 1e-17, 0.30000000000000004, 2.0, 1.25)] == [
        "0",
        "0",
        "0.3",
        "2",
        "1.25",
    ]


def test_a_curve_is_the_mean_over_seeds_with_their_deviation() -> None:
    """After one of four rounds, clients of seed 1 have 52, 53, 54, 55 of 100, and clients of seed 2 have 52, 54, 56,
    58.
    """
    found = mean_curve(made_run().summaries_of("fedspu"), "round", "accuracy")
    assert [point.x for point in found] == [1, 2, 3, 4]
    spread = abs(0.55 - 0.535) / 2**0.5
    assert found[0] == pytest.approx((1, 0.5425, 0.5425 - spread, 0.5425 + spread))


def test_a_curve_leaves_out_what_some_seed_lacks() -> None:
    long, short = (made_run(rounds=n, seeds=1).summaries_of("fedspu")[0] for n in (4, 2))
    assert [point.x for point in mean_curve([long, short], "round", "accuracy")] == [1, 2]
    assert mean_curve([long], "virtual_seconds", "accuracy") == []


def test_a_thinned_curve_keeps_its_ends_and_its_peak() -> None:
    points = [CurvePoint(x, 100.0 if x == 777 else x % 2, 0, 0) for x in range(10_000)]
    found = thinned(points, 400)
    assert len(found) == 400 and (found[0], found[-1]) == (points[0], points[-1])
    assert points[777] in found and found == sorted(found)
    assert thinned(points[:400], 400) == points[:400]


def test_steps_rise_where_the_points_are() -> None:
    points = [CurvePoint(1, 0, 0, 0), CurvePoint(1, 0.5, 0.5, 0.5), CurvePoint(3, 1, 1, 1)]
    assert [(p.x, p.y) for p in as_steps(points)] == [(1, 0), (1, 0), (1, 0.5), (3, 0.5), (3, 1)]


def test_an_interval_is_drawn_from_its_low_to_its_high_end() -> None:
    """It is from -1 to 1 with a little room, over 376 units that begin at 12."""
    svg = interval_chart([IntervalRow("a less b", 0.0, -1.0, 1.0), IntervalRow("c", 0.5, None, None)], "points", "said")
    (path,) = re.findall(r'class="interval" d="M([\d.]+) 24v8m0 -4H([\d.]+)', svg)
    assert [float(each) for each in path] == pytest.approx([200 - 188 / 1.12, 200 + 188 / 1.12], abs=0.06)
    assert svg.count('class="mean"') == 2 and 'aria-label="said"' in svg

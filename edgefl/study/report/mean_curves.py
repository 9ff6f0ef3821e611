"""The curves of methods in a report: the mean over the seeds and the spread between the seeds, with few points, so that
the file stays small. Nothing is drawn here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from edgefl.study.summary import Summary

MOST_POINTS = 400  # most points of a curve


class CurvePoint(NamedTuple):
    """A point of the mean curve, with the standard deviation over seeds on either side, which is 0 for one seed."""

    x: float
    y: float
    low: float
    high: float


def mean_curve(summaries: Sequence[Summary], x: str, y: str, most: int = MOST_POINTS) -> list[CurvePoint]:
    """Return the mean over the rounds that every seed has evaluated. An x that is an amount is a mean over seeds, too.

    summaries  summaries of one method, one for each seed
    x, y       names of values of a curve's points. Points where a value is missing or not finite are left out
    most       most points, at least 4
    """
    by_round = [{point["round"]: point for point in summary.curve} for summary in summaries]
    shared = [each for each in by_round[0] if all(each in points for points in by_round)] if by_round else []
    found = [_point([points[each] for points in by_round], x, y) for each in sorted(shared)]
    return thinned([point for point in found if point is not None], most)


def _point(points: Sequence[Mapping[str, Any]], x: str, y: str) -> CurvePoint | None:
    places, values = ([_number(point.get(name)) for point in points] for name in (x, y))
    if not all(map(math.isfinite, (*places, *values))):
        return None
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return CurvePoint(statistics.fmean(places), mean, mean - spread, mean + spread)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def thinned(points: Sequence[CurvePoint], most: int = MOST_POINTS) -> list[CurvePoint]:
    """Return at most `most` points: the first, the last, and the lowest and the highest point of each of equal
    stretches. So a dip or a peak of one round stays.
    """
    if len(points) <= most:
        return list(points)
    inner, stretches = points[1:-1], (most - 2) // 2
    kept = []
    for i in range(stretches):
        stretch = inner[i * len(inner) // stretches : (i + 1) * len(inner) // stretches]
        ends = {min(stretch, key=lambda point: point.y), max(stretch, key=lambda point: point.y)}
        kept += sorted(ends)
    return [points[0], *kept, points[-1]]

"""The curves of a method over its seeds: the mean, the spread between the seeds, and every seed's own curve.

A mean is over all seeds, or it does not exist. A seed that has ended before the other seeds, as with early stopping,
keeps its last point.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from edgefl.study.summary import Summary

Value = Callable[[Mapping[str, Any]], float | None]  # value of a curve's point, or None without a value


class MeanCurve(NamedTuple):
    """The curve of a method over its seeds.

    xs, ys  mean over the seeds at each round that all seeds were evaluated at, or nan if a seed has no number
    spread  standard deviation of the ys over the seeds, with n - 1, empty for one seed
    seeds   the xs and the ys of every seed, in the order of the seeds
    """

    xs: list[float]
    ys: list[float]
    spread: list[float]
    seeds: list[tuple[list[float], list[float]]]


def mean_curve(of_seeds: Sequence[Summary], x: Value, y: Value) -> MeanCurve:
    """Return the curve of one method, whose summaries differ in their seeds alone."""
    rows = [_common(of_seeds, round) for round in _rounds(of_seeds)]
    xs = [_mean([_number(x(point)) for point in row]) for row in rows]
    heights = [[_number(y(point)) for point in row] for row in rows]
    spread = [statistics.stdev(row) if _finite(row) else math.nan for row in heights] if len(of_seeds) > 1 else []
    seeds = [([_number(x(p)) for p in one.curve], [_number(y(p)) for p in one.curve]) for one in of_seeds]
    return MeanCurve(xs, [_mean(row) for row in heights], spread, seeds)


def _rounds(of_seeds: Sequence[Summary]) -> list[int]:
    """Return the rounds at which each seed was evaluated, or had ended before."""
    evaluated = [{point["round"] for point in one.curve} for one in of_seeds]
    every = sorted(set().union(*evaluated))
    return [round for round in every if all(round in of or round > max(of) for of in evaluated)]


def _common(of_seeds: Sequence[Summary], round: int) -> list[Mapping[str, Any]]:
    """Return each seed's point at that round, or its last point if the seed has ended before."""
    return [next((p for p in one.curve if p["round"] == round), one.curve[-1]) for one in of_seeds]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _finite(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

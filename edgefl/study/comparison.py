"""Comparison of methods over seeds: the result and the cost of each method, at the end and at equal budgets.

The figures come from single runs (summary.py). A figure that one seed lacks has no mean, so that no average hides a
missing seed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgefl.learning.scores import PLACE_SCORES
from edgefl.study.paired_differences import MethodPair, method_pairs
from edgefl.study.summary import Summary

BUDGETS = {
    "rounds": "round",
    "bytes": "payload_bytes",
    "seconds": "device_seconds",
    "work": "work",
    "virtual-seconds": "virtual_seconds",
    "joules": "virtual_joules",
}
"""The quantities that a run spends. A value is the field of a curve's point that holds the quantity."""
HELD_OUT = ("held_out", "held_out_worst_tenth")  # figures of clients that never took part, where a run has any
FEW = (*HELD_OUT, *PLACE_SCORES)  # figures that few runs have
Summaries = Mapping[int, Sequence[Summary]]  # seed -> summaries of the methods


@dataclass(frozen=True)
class Figure:
    """A figure by seed, in the order of the seeds. The value None stands for a seed without a value."""

    values: tuple[float | None, ...]

    @property
    def mean(self) -> float | None:
        """Return the mean over the seeds, or None if one seed has no value."""
        found = [value for value in self.values if value is not None]
        return sum(found) / len(found) if found and len(found) == len(self.values) else None

    @property
    def spread(self) -> float | None:
        """Return the standard deviation over the seeds, with n - 1, or None for one seed or if a seed has no value."""
        found = [value for value in self.values if value is not None]
        return statistics.stdev(found) if len(found) == len(self.values) > 1 else None

    def minus(self, other: Figure) -> Figure:
        """Return the differences, seed by seed."""
        pairs = zip(self.values, other.values, strict=True)
        return Figure(tuple(None if a is None or b is None else a - b for a, b in pairs))

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "spread": self.spread, "seeds": list(self.values)}


@dataclass(frozen=True)
class ComparisonRow:
    """One method over all seeds.

    kind            whose models are scored (summary.py)
    standard_error  root of the mean square over the seeds of one seed's standard error of the mean over clients
    of_dense        payload over the payload of dense messages, all seeds together. None: no messages were sent
    missing, diverged  numbers of clients, all seeds together
    """

    method: str
    kind: str
    has_accuracy: bool
    score: Figure
    worst_tenth: Figure
    standard_error: float | None
    refreshed: Figure | None
    rounds: Figure
    payload_bytes: Figure
    of_dense: float | None
    device_seconds: Figure
    work: Figure
    clients: int
    missing: int
    diverged: int
    tiers: list[dict[str, Any]]  # like the tiers of a summary, with means over the seeds
    held_out: Figure | None = None  # of clients that never took part, None without such clients
    held_out_worst_tenth: Figure | None = None
    perplexity: Figure | None = None  # of tokens, None where no token has a label
    mean_iou: Figure | None = None  # of pixels, None where no pixel has a label

    def to_json(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if value is not None or name not in FEW}
        return {name: value.to_json() if isinstance(value, Figure) else value for name, value in found.items()}


@dataclass(frozen=True)
class Budget:
    """All methods at one budget: the score of each method at its last evaluated round before the budget was spent.

    name    name of the budget
    least   by seed, the budget that was asked for, or the least total of the methods that spend any
    scores  by method. A seed without an evaluation within the budget has no score
    rounds  by method, the rounds of these evaluations
    """

    name: str
    least: Figure
    scores: dict[str, Figure]
    rounds: dict[str, Figure]

    def to_json(self) -> dict[str, Any]:
        parts = {"scores": self.scores, "rounds": self.rounds}
        found = {part: {method: each.to_json() for method, each in of.items()} for part, of in parts.items()}
        return {"least": self.least.to_json(), **found}


@dataclass(frozen=True)
class Comparison:
    """The comparison of a run's methods: `rows` by method, in order, `budgets` by name, and the `pairs` of every two
    methods.
    """

    seeds: tuple[int, ...]
    rows: dict[str, ComparisonRow]
    budgets: dict[str, Budget]
    pairs: tuple[MethodPair, ...] = ()

    def to_json(self) -> dict[str, Any]:
        rows = {name: row.to_json() for name, row in self.rows.items()}
        budgets = {name: budget.to_json() for name, budget in self.budgets.items()}
        pairs = [pair.to_json() for pair in self.pairs]
        return {"seeds": list(self.seeds), "methods": rows, "budgets": budgets, "differences": pairs}


def compare(by_seed: Summaries, budgets: Mapping[str, float] = {}) -> Comparison:
    """Compare the methods of a run. Every seed has the same methods.

    budgets  by name, in rounds, bytes, seconds, operations and joules. Default: the least total of the methods
    """
    seeds = tuple(by_seed)
    by_method = {each.method: [] for each in next(iter(by_seed.values()))}  # type: dict[str, list[Summary]]
    for summaries in by_seed.values():
        for each in summaries:
            by_method[each.method].append(each)
    rows = {method: _row(method, each) for method, each in by_method.items()}
    found = {name: _budget(key, name, by_method, budgets.get(name)) for name, key in BUDGETS.items()}
    kept = {name: budget for name, budget in found.items() if budget is not None}
    return Comparison(seeds, rows, kept, tuple(method_pairs(by_method, seeds)))


def _row(method: str, each: Sequence[Summary]) -> ComparisonRow:
    errors = [summary.standard_error for summary in each]
    squares = [error**2 for error in errors if error is not None]
    dense = sum(summary.dense_bytes for summary in each)
    return ComparisonRow(
        method=method,
        kind=each[0].kind,
        has_accuracy=each[0].has_accuracy,
        score=Figure(tuple(_score(summary) for summary in each)),
        worst_tenth=Figure(tuple(summary.worst_tenth for summary in each)),
        standard_error=math.sqrt(sum(squares) / len(squares)) if len(squares) == len(errors) else None,
        refreshed=_asked([summary.refreshed for summary in each]),
        rounds=Figure(tuple(float(summary.rounds) for summary in each)),
        payload_bytes=Figure(tuple(float(summary.payload_bytes) for summary in each)),
        of_dense=sum(summary.payload_bytes for summary in each) / dense if dense else None,
        device_seconds=Figure(tuple(summary.device_seconds for summary in each)),
        work=Figure(tuple(summary.work for summary in each)),
        clients=sum(len(summary.by_client) for summary in each),
        missing=sum(summary.missing for summary in each),
        diverged=sum(len(summary.diverged) for summary in each),
        tiers=[_tier(tiers) for tiers in zip(*(summary.tiers for summary in each), strict=True)],
        **{name: _asked([getattr(summary, name) for summary in each]) for name in HELD_OUT},
        **{name: _asked([summary.place_scores.get(name) for summary in each]) for name in PLACE_SCORES},
    )


def _asked(values: Sequence[float | None]) -> Figure | None:
    """Return the figure of a score that few runs ask for, or None if no seed has it."""
    return Figure(tuple(values)) if any(value is not None for value in values) else None


def _tier(tiers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean over seeds of every figure of a tier. Client rounds are added up."""
    found = {name: Figure(tuple(tier[name] for tier in tiers)).mean for name in tiers[0]}
    return {**found, "client_rounds": sum(tier["client_rounds"] for tier in tiers)}


def _score(summary: Summary) -> float | None:
    return summary.accuracy if summary.has_accuracy else summary.loss


def _budget(
    key: str, name: str, by_method: Mapping[str, Sequence[Summary]], asked: float | None = None
) -> Budget | None:
    """Compare methods at a budget. Return None if no method spends any of it, or if a run does not record it."""
    ends = {method: [summary.curve[-1].get(key) for summary in each] for method, each in by_method.items()}
    if any(end is None for each in ends.values() for end in each):
        return None
    least = []
    for totals in zip(*ends.values(), strict=True):
        spent = [total for total in totals if total]
        if not spent:
            return None
        least.append(min(spent) if asked is None else asked)
    points = {
        method: [reached(summary.curve, key, budget) for summary, budget in zip(each, least, strict=True)]
        for method, each in by_method.items()
    }
    score = next(iter(by_method.values()))[0].score

    def figures(entry: str) -> dict[str, Figure]:
        return {method: Figure(tuple(None if p is None else p[entry] for p in of)) for method, of in points.items()}

    return Budget(name, Figure(tuple(least)), figures(score), figures("round"))


def reached(curve: Sequence[Mapping[str, Any]], key: str, budget: float) -> Mapping[str, Any] | None:
    """Return the last point of a curve at which at most the budget had been spent, or None without such a point."""
    return next((point for point in reversed(curve) if point[key] <= budget), None)

"""The differences between two methods on the same clients and seeds: the mean of the paired differences, and its 95 %
interval by Student's t. Means and spreads of single methods are in comparison.py.

The interval over the clients of one seed says how far the difference would move with other clients of the same kind. It
says nothing about another training. The interval over seeds includes the draws of data, first model and clients.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgefl.study.student_t import two_sided
from edgefl.study.summary import Summary

LEVEL = 0.95


@dataclass(frozen=True)
class PairedDifference:
    """A mean of differences within pairs, the first value less the second.

    pairs      number of pairs that the mean is over
    left_out   number of pairs in which a value was never measured
    mean       None without pairs, or if a value is not a finite number
    low, high  ends of the 95 % interval, None for fewer than two pairs
    """

    pairs: int
    left_out: int
    mean: float | None
    low: float | None
    high: float | None

    @staticmethod
    def of(first: Sequence[float | None], second: Sequence[float | None], left_out: int = 0) -> PairedDifference:
        """Return the difference of values at equal positions. The value None stands for a number that is not finite."""
        found = [a - b for a, b in zip(first, second, strict=True) if a is not None and b is not None]
        if not found or len(found) < len(first):
            return PairedDifference(len(first), left_out, None, None, None)
        mean = statistics.fmean(found)
        if len(found) < 2:
            return PairedDifference(len(found), left_out, mean, None, None)
        half = two_sided(len(found) - 1, LEVEL) * statistics.stdev(found) / math.sqrt(len(found))
        return PairedDifference(len(found), left_out, mean, mean - half, mean + half)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class MethodPair:
    """A method and another method that it is compared with.

    over_seeds    difference of their mean scores, seed by seed, without an interval for one seed
    over_clients  by seed, the difference of the scores of each client that both methods tested
    """

    method: str
    other: str
    over_seeds: PairedDifference
    over_clients: dict[int, PairedDifference]

    def to_json(self) -> dict[str, Any]:
        clients = {str(seed): each.to_json() for seed, each in self.over_clients.items()}
        found = {"over_seeds": self.over_seeds.to_json(), "over_clients": clients}
        return {"method": self.method, "other": self.other, **found}


def method_pairs(by_method: Mapping[str, Sequence[Summary]], seeds: Sequence[int]) -> list[MethodPair]:
    """Compare every method with every method after it. `by_method` has a summary for each seed, in order."""
    names = list(by_method)
    return [
        _pair(method, other, by_method[method], by_method[other], seeds)
        for i, method in enumerate(names)
        for other in names[i + 1 :]
        if by_method[method][0].score == by_method[other][0].score
    ]


def _pair(
    method: str, other: str, ours: Sequence[Summary], theirs: Sequence[Summary], seeds: Sequence[int]
) -> MethodPair:
    over_seeds = PairedDifference.of([_mean_score(each) for each in ours], [_mean_score(each) for each in theirs])
    over_clients = {seed: _over_clients(*pair) for seed, *pair in zip(seeds, ours, theirs, strict=True)}
    return MethodPair(method, other, over_seeds, over_clients)


def _over_clients(ours: Summary, theirs: Summary) -> PairedDifference:
    examples = [summary.evaluation[summary.kind]["examples"] for summary in (ours, theirs)]
    tested = [k for k, both in enumerate(zip(*examples, strict=True)) if None not in both]
    first, second = ours.by_client, theirs.by_client
    left_out = len(first) - len(tested)
    return PairedDifference.of([first[k] for k in tested], [second[k] for k in tested], left_out)


def _mean_score(summary: Summary) -> float | None:
    return summary.accuracy if summary.has_accuracy else summary.loss

"""The cost of methods until they first reached an accuracy: rounds, bytes, work, and with modelled devices time and
energy. The figures come from single runs (summary.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgefl.study.comparison import Figure, Summaries
from edgefl.study.summary import Summary

SPENDING = {
    "rounds": "round",
    "bytes": "payload_bytes",
    "virtual-seconds": "virtual_seconds",
    "joules": "virtual_joules",
}  # name of the cost -> its key in the points of a curve


@dataclass(frozen=True)
class Target:
    """The cost of an accuracy: for each method the cost until its first evaluated round with that accuracy, by the
    names of SPENDING that the run knows. A seed that never reached the accuracy has no cost.
    """

    accuracy: float
    spent: dict[str, dict[str, Figure]]

    def to_json(self) -> dict[str, Any]:
        of = {method: {name: each.to_json() for name, each in found.items()} for method, found in self.spent.items()}
        return {"accuracy": self.accuracy, "spent": of}


def target(by_seed: Summaries, accuracy: float | None = None) -> Target | None:
    """Return the cost of an accuracy for each method, or None if the results have no accuracy.

    accuracy  None: the lowest final accuracy of all methods and seeds, which every method has reached
    """
    summaries = [summary for of in by_seed.values() for summary in of]
    if not all(summary.has_accuracy for summary in summaries):
        return None
    wanted = min(summary.accuracy for summary in summaries) if accuracy is None else accuracy
    names = [name for name, key in SPENDING.items() if all(key in summary.curve[-1] for summary in summaries)]
    methods = dict.fromkeys(summary.method for summary in summaries)
    spent = {method: _spent([s for s in summaries if s.method == method], wanted, names) for method in methods}
    return Target(wanted, spent)


def _spent(seeds: Sequence[Summary], wanted: float, names: Sequence[str]) -> dict[str, Figure]:
    points = [first(summary.curve, wanted) for summary in seeds]
    return {name: Figure(tuple(None if p is None else p[SPENDING[name]] for p in points)) for name in names}


def first(curve: Sequence[Mapping[str, Any]], wanted: float) -> Mapping[str, Any] | None:
    """Return the first point of a curve that has at least this accuracy, or None if there is no such point."""
    return next((point for point in curve if point["accuracy"] >= wanted), None)

"""What tables of papers measure in the metrics of a run: accuracies, rounds to an accuracy, bytes. Shares, not percent.

The accuracy is that of the global model on the data set's official test part. A data set without one, as the digits of
a quick run, gives that on the clients' own test samples.
"""

from __future__ import annotations

from statistics import mean

from bench.papers.table import Found, Line, Lines
from edgefl.study.summary import COMMON, GLOBAL


def accuracy(line: Line) -> float | None:
    """The global model's after this round; None if it was not evaluated."""
    evaluation = line.get("evaluation", {})
    if COMMON in evaluation:
        return float(evaluation[COMMON]["correct"] / evaluation[COMMON]["examples"])
    return float(evaluation[GLOBAL]["accuracy_weighted"]) if GLOBAL in evaluation else None


def rounds_to(target: float, lines: Lines) -> int | None:
    """The first round after which the accuracy is at least this; None if it never is."""
    reached = (line["round"] for line in lines if (accuracy(line) or 0.0) >= target)
    return next(reached, None)


def last(lines: Lines, count: int = 10) -> Found:
    """The mean accuracy of the last rounds that were evaluated, in percent."""
    found = [each for each in map(accuracy, lines) if each is not None]
    return Found(100 * mean(found[-count:]), f"highest {100 * max(found):.1f}")


def bytes_up(lines: Lines) -> int:
    """All payload that clients sent: values, ids and headers of blocks."""
    return sum(sum(line["up"].values()) for line in lines)

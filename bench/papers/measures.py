"""Measures of tables of papers in the metrics of a run: accuracies as shares, rounds to an accuracy, bytes.

The accuracy is that of the global model on the data set's official test part. A data set without one, as the digits of
a quick run, gives the accuracy on the clients' own test samples.
"""

from __future__ import annotations

from statistics import mean

from bench.papers.table import Found, Line, Lines
from edgefl.study.summary import COMMON, GLOBAL


def accuracy(log_record: Line) -> float | None:
    """Return the global model's accuracy after this round, or None if it was not evaluated."""
    evaluation = log_record.get("evaluation", {})
    if COMMON in evaluation:
        return float(evaluation[COMMON]["correct"] / evaluation[COMMON]["examples"])
    return float(evaluation[GLOBAL]["accuracy_weighted"]) if GLOBAL in evaluation else None


def rounds_to(target: float, log_records: Lines) -> int | None:
    """Return the first round after which the accuracy is at least `target`, or None if it never is."""
    reached = (log_record["round"] for log_record in log_records if (accuracy(log_record) or 0.0) >= target)
    return next(reached, None)


def last(log_records: Lines, count: int = 10) -> Found:
    """Return the mean accuracy of the last rounds that were evaluated, in percent."""
    found = [each for each in map(accuracy, log_records) if each is not None]
    return Found(100 * mean(found[-count:]), f"highest {100 * max(found):.1f}")


def bytes_up(log_records: Lines) -> int:
    """Return the bytes of all payload that clients sent: values, ids and headers of blocks."""
    return sum(sum(log_record["up"].values()) for log_record in log_records)

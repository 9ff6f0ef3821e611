"""What the figures of a run say, in words: what a method gained against another, and how far chance alone goes.

kB and MB are 1e3 and 1e6 bytes. Not the figures (summary.py), nor tables of them (tables.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgefl.study.summary import ADAPTED, GLOBAL, PERSONAL, Summary

WORDS = {
    PERSONAL: "its clients' own models",
    ADAPTED: "its global model, adapted by each client",
    GLOBAL: "its global model",
}


def gains(summaries: list[Summary]) -> list[str]:
    """What FedSPU gained or lost against each other method, one sentence each."""
    by_name = {summary.method: summary for summary in summaries}
    sentences = []
    for ours in (s for s in summaries if s.method.startswith("fedspu")):
        for other in (s for s in summaries if not s.method.startswith("fedspu")):
            gained = f"{_gained(ours, other)}{other.method} ({WORDS[other.kind]})"
            sentences.append(f"{ours.method}: {gained}.")
    if "fedspu" in by_name and "fedspu-es" in by_name:
        sentences.append(_early_stopping(by_name["fedspu"], by_name["fedspu-es"]))
    return sentences


def _gained(ours: Summary, other: Summary) -> str:
    """How much better one is, up to the other's name."""
    if ours.has_accuracy:
        return f"{100 * (ours.accuracy - other.accuracy):+.1f} points of accuracy against "
    return f"a loss of {number(ours.loss)} against the {number(other.loss)} of "


def precision(summaries: list[Summary]) -> str:
    """How far chance alone moves these accuracies: the largest binomial standard error among the methods."""
    tested = [s.evaluation[s.kind] for s in summaries]
    samples = sum(examples or 0 for examples in tested[0]["examples"])
    if not summaries[0].has_accuracy:
        return f"One seed, {samples} test samples."
    error = max(math.sqrt(t["accuracy_weighted"] * (1 - t["accuracy_weighted"]) / samples) for t in tested)
    return f"One seed, {samples} test samples: the standard error of an accuracy is up to {100 * error:.1f} points."


def _early_stopping(plain: Summary, stopped: Summary) -> str:
    saved = percent(1 - stopped.payload_bytes / plain.payload_bytes)
    sentence = (
        f"Early stopping: {stopped.rounds} of {plain.rounds} rounds, {stopped.client_rounds} of {plain.client_rounds} "
        f"client rounds, {saved} of the bytes saved, {_changed(stopped, plain)}"
    )
    scarce = stopped.server["round_lt_C"]
    return f"{sentence}; too few clients for a full round after round {scarce}." if scarce else f"{sentence}."


def _changed(stopped: Summary, plain: Summary) -> str:
    if plain.has_accuracy:
        return f"{100 * (stopped.accuracy - plain.accuracy):+.1f} points of accuracy"
    return f"a loss of {number(stopped.loss)} in place of {number(plain.loss)}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """A loss; of a model that has diverged it is no number."""
    return "none" if value is None else f"{value:.4g}"


def seeds_to_json(by_seed: Mapping[int, list[Summary]]) -> dict[str, Any]:
    """All figures of a run; of several seeds, of each."""
    each = {str(seed): to_json(summaries) for seed, summaries in by_seed.items()}
    return {"seeds": each} if len(each) > 1 else next(iter(each.values()))


def to_json(summaries: list[Summary]) -> dict[str, Any]:
    """All figures as JSON values."""
    return {
        "methods": {summary.method: summary.to_json() for summary in summaries},
        "gains": gains(summaries),
        "precision": precision(summaries),
    }

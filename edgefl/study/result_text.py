"""Sentences about the figures of a run: the gain of a method over another method, and the precision of the figures.

kB and MB are 1e3 and 1e6 bytes. The figures are in summary.py and comparison.py, and their tables are in tables.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgefl.methods.method_label import Variant
from edgefl.study.accuracy_targets import target
from edgefl.study.comparison import Comparison, ComparisonRow, Figure, Summaries, compare
from edgefl.study.summary import ADAPTED, GLOBAL, PERSONAL, Summary

WORDS = {
    PERSONAL: "its clients' own models",
    ADAPTED: "its global model, adapted by each client",
    GLOBAL: "its global model",
}
NONE = "-"  # stands for a missing figure
OURS = ("fedspu", "fedspu-es")


def sentences(by_seed: Summaries, found: Comparison) -> list[str]:
    """Return all sentences about a run: gains, savings by early stopping, lost clients, and the precision."""
    said = [*gains(found), *early_stopping(by_seed), *lost(found), *frozen(by_seed), *modelled(by_seed)]
    return [*said, precision(by_seed, found)]


def frozen(by_seed: Summaries) -> list[str]:
    """Return a sentence about the bytes of the frozen parameters, if the model has some."""
    count = next((summary.frozen_bytes for of in by_seed.values() for summary in of), 0)
    if not count:
        return []
    return [
        f"The frozen part of the model has {count / 1e6:.3g} MB: a device fetches it once, and no payload in the "
        "tables has a byte of it."
    ]


def modelled(by_seed: Summaries) -> list[str]:
    """Return sentences about time and energy of modelled devices, if there are any, and about devices with too little
    memory.
    """
    rows = [row for of in by_seed.values() for summary in of for row in summary.devices]
    if not rows:
        return []
    lacking = {
        row["device"]: f"{row['device']}: a training step takes {row['needed_bytes'] / 1e6:.1f} MB (account exact, at "
        f"its tier), more than the {row['memory_bytes'] / 1e6:.1f} MB of its profile; its times are no device's."
        for row in rows
        if row["memory_bytes"] is not None and row["needed_bytes"] > row["memory_bytes"]
    }
    return [
        "Time and energy of devices are a model: counted multiply-adds and bytes by the rates of their profiles. "
        "Nothing was measured; evaluations cost nothing.",
        *lacking.values(),
    ]


def gains(found: Comparison) -> list[str]:
    """Return one sentence for each other method about FedSPU's gain or loss against it. Over several seeds the sentence
    has the mean and the standard deviation of the differences seed by seed.
    """
    rows = list(found.rows.values())
    family = [row for row in rows if Variant.of(row.method).method in OURS]
    ours = [row for row in family if row.method in OURS] or family
    others = [row for row in rows if row not in ours]
    return [f"{row.method}: {_gained(row, other)} ({WORDS[other.kind]})." for row in ours for other in others]


def _gained(ours: ComparisonRow, other: ComparisonRow) -> str:
    """Say in words how far one of two scores is above the other."""
    if not ours.has_accuracy:
        return f"a loss of {number(ours.score.mean)} against the {number(other.score.mean)} of {other.method}"
    return f"{_points(ours.score.minus(other.score))} of accuracy against {other.method}"


def _points(difference: Figure) -> str:
    if difference.mean is None:
        return "no number of points"
    spread = "" if difference.spread is None else f" ± {100 * difference.spread:.1f}"
    return f"{100 * difference.mean:+.1f}{spread} points"


def early_stopping(by_seed: Summaries) -> list[str]:
    """Return sentences about what early stopping saved FedSPU and changed, seed by seed."""
    found = []
    for seed, summaries in by_seed.items():
        by_name = {summary.method: summary for summary in summaries}
        if by_name.keys() >= set(OURS):
            of = f" of seed {seed}" if len(by_seed) > 1 else ""
            found.append(f"Early stopping{of}: {_stopped(by_name['fedspu'], by_name['fedspu-es'])}")
    return found


def _stopped(plain: Summary, stopped: Summary) -> str:
    saved = percent(1 - stopped.payload_bytes / plain.payload_bytes)
    sentence = (
        f"{stopped.rounds} of {plain.rounds} rounds, {stopped.client_rounds} of {plain.client_rounds} "
        f"client rounds, {saved} of the bytes saved, {_changed(stopped, plain)}"
    )
    scarce = stopped.server.get("round_lt_C")
    return f"{sentence}; too few clients for a full round after round {scarce}." if scarce else f"{sentence}."


def _changed(stopped: Summary, plain: Summary) -> str:
    if plain.has_accuracy:
        return f"{100 * (stopped.accuracy - plain.accuracy):+.1f} points of accuracy"
    return f"a loss of {number(stopped.loss)} in place of {number(plain.loss)}"


def lost(found: Comparison) -> list[str]:
    """Return a sentence for each method whose clients have no figure, or have a figure that is not a finite number."""
    said = []
    for row in found.rows.values():
        if row.diverged:
            said.append(f"{row.method}: {row.diverged} of {row.clients} clients have diverged.")
        if row.missing:
            said.append(f"{row.method}: {row.missing} of {row.clients} clients were not tested; no mean is over them.")
    return said


def precision(by_seed: Summaries, found: Comparison) -> str:
    """Return a sentence about how far chance alone moves the means: the largest standard error over clients among the
    methods.
    """
    first = next(iter(by_seed.values()))[0]
    tested = first.evaluation[first.kind]["examples"]
    samples, clients = sum(examples or 0 for examples in tested), sum(examples is not None for examples in tested)
    runs = f"{len(found.seeds)} seeds, ± their standard deviation" if len(found.seeds) > 1 else "One seed"
    errors = [row.standard_error for row in found.rows.values() if row.standard_error is not None]
    said = f"{runs}, {clients} clients with {samples} test samples"
    if not errors:
        return f"{said}."
    error = f"{100 * max(errors):.1f} points" if first.has_accuracy else number(max(errors))
    return f"{said}: the standard error over clients of a mean is up to {error}."


def percent(share: float | None, spread: float | None = None) -> str:
    """Write a share with its spread, or a dash for a missing share."""
    if share is None:
        return NONE
    return f"{100 * share:.1f} %" if spread is None else f"{100 * share:.1f}±{100 * spread:.1f} %"


def number(value: float | None, spread: float | None = None) -> str:
    """Write a loss with its spread. The loss of a diverged model is missing."""
    if value is None:
        return "none"
    return f"{value:.4g}" if spread is None else f"{value:.4g}±{spread:.2g}"


def to_json(by_seed: Summaries, budgets: Mapping[str, float] = {}, accuracy: float | None = None) -> dict[str, Any]:
    """Return all figures as JSON values: by method for one seed, or by seed for several seeds. The comparison over the
    seeds follows, and the costs until the methods reached an accuracy, as for `target`.
    """
    found = compare(by_seed, budgets)
    each = {
        str(seed): {"methods": {summary.method: summary.to_json() for summary in of}} for seed, of in by_seed.items()
    }
    figures = next(iter(each.values())) if len(each) == 1 else {"seeds": each}
    said = {"gains": [*gains(found), *early_stopping(by_seed)], "precision": precision(by_seed, found)}
    at = target(by_seed, accuracy)
    return {**figures, "comparison": found.to_json(), **said, **({} if at is None else {"target": at.to_json()})}

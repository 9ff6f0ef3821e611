"""The results of a run as flat rows of names and plain values, for CSV files and data frames. Every number equals the
number in the JSON of the run.

    methods      a row for each method: means over the seeds, and the spread between the seeds
    seeds        a row for each method and seed
    clients      a row for each method, seed and client, at the last evaluation
    rounds       a row for each method, seed and round (round_records.py)
    differences  a row for each pair of methods, over the seeds and over the clients of each seed
                 (paired_differences.py)
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Protocol

from edgefl.learning.scores import PLACE_SCORES
from edgefl.methods.method_label import written
from edgefl.study.adaptation_costs import prefixed
from edgefl.study.comparison import HELD_OUT, Comparison, ComparisonRow, Figure, Summaries, compare
from edgefl.study.paired_differences import LEVEL, MethodPair, PairedDifference
from edgefl.study.round_records import RoundRecord
from edgefl.study.summary import Summary

KINDS = ("methods", "seeds", "clients", "rounds", "differences")
FIGURES = ("score", "worst_tenth", "refreshed", "rounds", "payload_bytes", "device_seconds", "work")

Row = dict[str, Any]


class RunRows(Protocol):
    """The values that flat rows are made of."""

    @property
    def summaries(self) -> Summaries: ...
    @property
    def metrics(self) -> list[RoundRecord]: ...
    @property
    def tuned(self) -> Mapping[str, Mapping[str, Any]]: ...


def flat_rows(run: RunRows, kind: str = "methods", budgets: Mapping[str, float] = {}) -> list[Row]:
    """Return the rows of that kind. Raises ValueError for an unknown kind, RunError before the first evaluation."""
    if kind not in KINDS:
        raise ValueError(f"frame of {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "rounds":
        return [{**each} for each in run.metrics]
    if kind == "seeds":
        return [_of_seed(seed, each) for seed, of in run.summaries.items() for each in of]
    if kind == "clients":
        return [row for seed, of in run.summaries.items() for each in of for row in _of_clients(seed, each)]
    found = compare(run.summaries, budgets)
    if kind == "differences":
        return [row for pair in found.pairs for row in _of_pair(pair)]
    return method_rows(found, run.tuned)


def method_rows(found: Comparison, tuned: Mapping[str, Mapping[str, Any]] = {}) -> list[Row]:
    """Return a row for each method. `tuned` has the values that validation data have chosen, by method and option."""
    options = sorted({option for chosen in tuned.values() for option in chosen})
    return [
        {**_of_method(row, found), **{f"tuned_{option}": tuned.get(name, {}).get(option) for option in options}}
        for name, row in found.rows.items()
    ]


def _of_method(row: ComparisonRow, found: Comparison) -> Row:
    flat: Row = {"method": row.method, "model": row.kind, "seeds": len(found.seeds)}
    beside = [name for name in PLACE_SCORES if getattr(row, name) is not None]
    for name in (*FIGURES, *(HELD_OUT if row.held_out else ()), *beside):
        figure = getattr(row, name) or Figure((None,))
        column = ("accuracy" if row.has_accuracy else "loss") if name == "score" else name
        flat |= {column: figure.mean, f"{column}_spread": figure.spread}
    for name in ("standard_error", "of_dense", "clients", "missing", "diverged"):
        flat[name] = getattr(row, name)
    for name, budget in found.budgets.items():
        stem = f"at_equal_{name.replace('-', '_')}"
        flat |= {stem: budget.scores[row.method].mean, f"{stem}_of": budget.least.mean}
    return flat


def _of_seed(seed: int, each: Summary) -> Row:
    names = ("worst_tenth", "standard_error", "refreshed", "rounds", "client_rounds", "payload_bytes", "dense_bytes")
    more = ("device_seconds", "work", "virtual_seconds", "virtual_joules", "refused", "excluded", "clipped", "missing")
    score = each.accuracy if each.has_accuracy else each.loss
    return {
        "method": each.method,
        "seed": seed,
        "model": each.kind,
        each.score: score,
        **each.place_scores,
        **{name: getattr(each, name) for name in (*names, *more)},
        "diverged": len(each.diverged),
        **({name: getattr(each, name) for name in HELD_OUT} if each.held_out is not None else {}),
        **prefixed(each.adaptation),
        **{f"measured_joules_{kind}": joules for kind, joules in (each.measured_joules or {}).items()},
    }


def _of_clients(seed: int, each: Summary) -> Iterator[Row]:
    examples = each.evaluation[each.kind]["examples"]
    for client, score in enumerate(each.by_client):
        row = {"method": each.method, "seed": seed, "client": client, "test_samples": examples[client]}
        yield {**row, each.score: score}


def _of_pair(pair: MethodPair) -> Iterator[Row]:
    yield _difference(pair, "seeds", None, pair.over_seeds)
    for seed, each in pair.over_clients.items():
        yield _difference(pair, "clients", seed, each)


def _difference(pair: MethodPair, over: str, seed: int | None, each: PairedDifference) -> Row:
    return {"method": pair.method, "other": pair.other, "over": over, "seed": seed, **vars(each), "level": LEVEL}


def as_csv(rows: Sequence[Row]) -> str:
    """Write a line of names, then a line for each row, ended by newlines. A cell without a value is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return lines.getvalue()


def _cell(value: Any) -> Any:
    return written(value) if isinstance(value, bool | tuple) else value

"""The sections at the head of a report: each run in a few numbers, its settings, and the differences between runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from edgefl.methods.method_label import label_of, written
from edgefl.study.comparison import compare
from edgefl.study.report import html_parts
from edgefl.study.report.reported_run import ReportedRun, TrialState
from edgefl.study.result_table import ResultTable, new_result_table
from edgefl.study.result_text import NONE, number, percent
from edgefl.study.summary import MODELS

KIND = "kind of run"
MAIN = (
    KIND, "methods", "data", "model", "partition", "clients", "rounds", "per_round", "keep", "epochs", "batch", "lr",
    "seed", "seeds", "options", "tune", "tuned", "devices",
)  # fmt: skip
MOST_STATES = 6  # most unfinished trials in a sentence
LONGEST = 120  # most letters of a setting in a table


def overview_section(runs: Sequence[ReportedRun]) -> str:
    """Return a row for each method of each run, and warnings that a reader should know before the numbers."""
    several = len(runs) > 1
    warnings = [words for run in runs for words in _warnings(run, several)]
    return html_parts.section(
        "overview", "Overview", [html_parts.listed(warnings, "warning"), html_parts.table(_overview(runs, several))]
    )


def _overview(runs: Sequence[ReportedRun], several: bool) -> ResultTable:
    headings = ("method", "model", "state", "rounds", "score", "worst tenth", "payload", "training time")
    heads, left = (["run", *headings], 4) if several else (list(headings), 3)
    rows = ([*([run.name] if several else []), *row] for run in runs for row in _rows(run))
    return new_result_table("Each method at its last evaluated round", heads, rows, left)


def _rows(run: ReportedRun) -> Iterator[list[str]]:
    found = compare(run.by_seed).rows if run.by_seed else {}
    for method in dict.fromkeys(state.method for state in run.states):
        states = [state for state in run.states if state.method == method]
        state = "over" if all(each.is_over for each in states) else "not over"
        tail = [state, _rounds(states, run.experiment.rounds)]
        if method not in found:
            yield [method, NONE, *tail, *[NONE] * 4]
            continue
        row = found[method]
        shown = percent if row.has_accuracy else number
        yield [
            method,
            MODELS[row.kind],
            *tail,
            shown(row.score.mean, row.score.spread),
            shown(row.worst_tenth.mean),
            f"{(row.payload_bytes.mean or 0) / 1e6:.2f} MB",
            f"{row.device_seconds.mean or 0:.1f} s",
        ]


def _rounds(states: Sequence[TrialState], asked: int) -> str:
    """Write the number of closed rounds and the number that was asked for, from the least of the seeds to the most."""
    least, most = min(each.rounds for each in states), max(each.rounds for each in states)
    return f"{least} of {asked}" if least == most else f"{least} to {most} of {asked}"


def _warnings(run: ReportedRun, has_name: bool) -> Iterator[str]:
    of = f"In {run.name} " if has_name else "Here "
    open_ = [state for state in run.states if not state.is_over]
    if open_:
        more = f"; and {len(open_) - MOST_STATES} more" if len(open_) > MOST_STATES else ""
        states = "; ".join(map(_state, open_[:MOST_STATES])) + more
        yield f"{of}the run has not ended: {states}. The figures are those of the last evaluated round so far."
    if not run.by_seed:
        yield f"{of}no round has been evaluated yet, so there are no figures."
    elif len(run.by_seed) < run.experiment.seeds:
        seeds = ", ".join(map(str, run.by_seed))
        yield (
            f"{of}the report compares seed {seeds} of {run.experiment.seeds} seeds; in every other seed a method has "
            "no evaluated round yet."
        )
    yield from (f"{run.name}: {words}" if has_name else words for words in run.edges)
    if run.lacking:
        yield (
            f"{of}the model of the run cannot be made here ({run.lacking}), so memory and the share of dense payloads "
            "are not known."
        )


def _state(state: TrialState) -> str:
    evaluated = "" if state.is_evaluated else ", not evaluated yet"
    return f"{state.method} with seed {state.seed} has closed {state.rounds} rounds{evaluated}"


def settings_section(runs: Sequence[ReportedRun]) -> str:
    """Return the section of settings. If there are several runs, the differences between the runs come first."""
    every = [_settings(run) for run in runs]
    names = list(dict.fromkeys(name for each in every for name in each))
    differing = [name for name in names if len({each.get(name, NONE) for each in every}) > 1]
    heads = [run.name for run in runs] if len(runs) > 1 else ["value"]

    def rows(of: Sequence[str]) -> ResultTable:
        cells = ([name, *(each.get(name, NONE) for each in every)] for name in of)
        return new_result_table(title, ["setting", *heads], cells, left=1 + len(heads))

    parts = []
    if len(runs) > 1:
        title = "What differs between the runs"
        alike = "The runs have the same settings." if not differing else ""
        parts += [html_parts.table(rows(differing)), html_parts.paragraph(alike) if alike else ""]
    title = "The main settings"
    parts.append(html_parts.table(rows([name for name in MAIN if name in names])))
    title = "All settings"
    parts.append(html_parts.hidden(title, [html_parts.table(rows(names))]))
    return html_parts.section("settings", "What was asked for", parts)


def _settings(run: ReportedRun) -> dict[str, str]:
    """Return every setting as text."""
    kind = {KIND: "served to devices" if run.is_served else "simulated"}
    found = asdict(replace(run.experiment, tuned=(), tune=()))
    experiment = run.experiment
    found["tune"] = "; ".join(f"{name}: {', '.join(map(written, values))}" for name, values in experiment.tune)
    found["tuned"] = "; ".join(label_of(label, dict(chosen)) for label, chosen in experiment.tuned)
    return kind | {name: text for name, value in found.items() if (text := _text(value))}


def _text(value: Any) -> str:
    """Write a value in a line. A long value is cut. The line is empty for a setting without a value."""
    if value in ((), "", None):
        return ""
    if isinstance(value, tuple) and all(isinstance(each, str | int | float) for each in value):
        text = ", ".join(map(str, value))
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"

"""The figures of a run as tables for a terminal of 80 columns or more. They are computed elsewhere (summary.py)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from edgefl.methods.rounds.client_round import EXECUTED, SEARCH
from edgefl.study.comparison import Comparison, ComparisonRow, Figure, Summaries, compare
from edgefl.study.device_tables import device_tables, duration, energy
from edgefl.study.energy_totals import words
from edgefl.study.result_text import NONE, number, percent, sentences
from edgefl.study.summary import COMMON, MODELS, NOT_AGGREGATED, Summary
from edgefl.study.table_style import new_table

LOST = ("missing", "diverged")  # clients; columns where there are any
SPENT = {  # a budget in words, by its name
    "rounds": lambda spent: f"{spent:.4g} rounds",
    "bytes": lambda spent: f"{spent / 1e6:.2f} MB",
    "seconds": lambda spent: f"{spent:.1f} s",
    "work": lambda spent: f"{spent / 1e9:.4g} GFLOP",
    "virtual-seconds": lambda spent: f"{duration(spent)}*",
    "joules": lambda spent: f"{energy(spent)}*",
}

Column = tuple[str, Callable[[ComparisonRow], str]]  # its heading, and its cell in the row of a method


def console() -> Console:
    """The terminal, or 100 columns where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=100)


def as_text(by_seed: Summaries, width: int, accuracy: float | None = None) -> str:
    """What `print_tables` prints, in lines of so many columns."""
    lines = StringIO()
    print_tables(Console(file=lines, width=width, force_jupyter=False), by_seed, accuracy=accuracy)
    return lines.getvalue()


def print_tables(
    console: Console, by_seed: Summaries, budgets: Mapping[str, float] = {}, accuracy: float | None = None
) -> None:
    """The methods side by side, at their ends, at equal budgets and at an accuracy, the modelled devices, the capacity
    tiers, and the gains in sentences.

    budgets   as of `compare`
    accuracy  as of `target`
    """
    found, first = compare(by_seed, budgets), list(next(iter(by_seed.values())))
    console.print(_methods(found, by_seed))
    if len(found.rows) > 1:
        console.print(_budgets(found))
    for table in device_tables(by_seed, accuracy):
        console.print(table)
    for row in found.rows.values():
        if row.method.startswith("fedspu"):
            console.print(_tier_scores(found))
            console.print(_tier_costs(row))
            break
    if any(summary.density is not None for summary in first):
        console.print(_masks(first))
    for sentence in sentences(by_seed, found):
        console.print(sentence, soft_wrap=True)


def _methods(found: Comparison, by_seed: Summaries) -> Table:
    """A row per method: its score and its cost."""
    each = {name: [s for of in by_seed.values() for s in of if s.method == name] for name in found.rows}
    rows, one = list(found.rows.values()), next(iter(each.values()))[0]
    decisions = one.evaluation[one.kind].get("decisions", 1)
    what = f"{one.score} of {decisions} decisions" if decisions > 1 else one.score
    of_seeds = f", {len(found.seeds)} seeds" if len(found.seeds) > 1 else ""
    rounds = {row.rounds.mean for row in rows}
    after = f", rounds: {rounds.pop():g}" if len(rounds) == 1 else ""
    table = new_table(f"Mean {what} on clients' own test samples, and its cost{of_seeds}{after}")
    columns = [*_score_columns(rows, one.score), *_cost_columns(rows, each, not after), *_reply_columns(rows, each)]
    if any(COMMON in of[0].evaluation for of in each.values()):
        columns.append(("common test", lambda row: _of_common([s.evaluation.get(COMMON) for s in each[row.method]])))
    table.add_column("method", overflow="fold")
    table.add_column("model")
    for heading, _ in columns:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(row.method, MODELS[row.kind], *(cell(row) for _, cell in columns))
    return table


def _score_columns(rows: Sequence[ComparisonRow], score: str) -> Iterator[Column]:
    """Scores on clients' own test samples. `score`: the heading of the mean score, "accuracy" or "loss"."""
    yield score, lambda row: _score(row, row.score.mean, row.score.spread)
    yield "worst tenth", lambda row: _score(row, row.worst_tenth.mean)
    if any(row.refreshed for row in rows):
        yield "refreshed", lambda row: _score(row, row.refreshed.mean, row.refreshed.spread) if row.refreshed else ""


def _cost_columns(
    rows: Sequence[ComparisonRow], each: Mapping[str, Sequence[Summary]], has_rounds: bool
) -> Iterator[Column]:
    """Rounds, bytes, time, energy and work. `each`: the summaries of a method by its name, one per seed; `has_rounds`:
    whether methods ended after different numbers of rounds.
    """
    first = {name: of[0] for name, of in each.items()}
    if has_rounds:
        yield "rounds", lambda row: f"{row.rounds.mean or 0:.4g}"
    yield "payload", lambda row: f"{(row.payload_bytes.mean or 0) / 1e6:.2f} MB"
    yield "of dense", lambda row: percent(row.of_dense)
    yield "time", lambda row: f"{row.device_seconds.mean or 0:.1f} s"
    if any(summary.measured_joules for summary in first.values()):
        yield "measured", lambda row: NONE if (of := first[row.method].measured_joules) is None else words(of)
    if any(summary.density is not None for summary in first.values()):
        yield "density", lambda row: "1" if (of := first[row.method].density) is None else f"{of:g}"
        yield "GFLOP", lambda row: "" if (of := first[row.method].flops) is None else f"{of / 1e9:.4g}"


def _reply_columns(rows: Sequence[ComparisonRow], each: Mapping[str, Sequence[Summary]]) -> Iterator[Column]:
    """Numbers of replies that were not aggregated and of clients that were lost, of each kind that there is.

    each  the summaries of a method by its name, one per seed
    """

    def not_aggregated(name: str, row: ComparisonRow) -> str:
        return str(sum(getattr(summary, name) for summary in each[row.method]))

    def lost(name: str, row: ComparisonRow) -> str:
        return str(getattr(row, name))

    for name in NOT_AGGREGATED:
        if any(getattr(summary, name) for of in each.values() for summary in of):
            yield name, partial(not_aggregated, name)
    for name in LOST:
        if any(getattr(row, name) for row in rows):
            yield name, partial(lost, name)


def _score(row: ComparisonRow, mean: float | None, spread: float | None = None) -> str:
    """An accuracy or a loss of the row's method, and how far it spreads over the seeds."""
    return percent(mean, spread) if row.has_accuracy else number(mean, spread)


def _of_common(found: Sequence[Mapping[str, Any] | None]) -> str:
    """Of the test set that no client owns, mean over seeds; nothing where the method has no model of all clients."""
    known = [each for each in found if each is not None]
    if not known:
        return ""
    if "correct" not in known[0]:
        return number(Figure(tuple(each["loss"] for each in known)).mean)
    return percent(sum(each["correct"] / (each["examples"] * each.get("decisions", 1)) for each in known) / len(known))


def _budgets(found: Comparison) -> Table:
    more = "; * by the model of the devices" if "joules" in found.budgets else ""
    table = new_table(f"The same at equal rounds, bytes, device time and work{more}")
    table.add_column("method", overflow="fold")
    for key, budget in found.budgets.items():
        table.add_column(SPENT[key](budget.least.mean or 0), justify="right")
    for name, row in found.rows.items():
        scores = [budget.scores[name] for budget in found.budgets.values()]
        shown = percent if row.has_accuracy else number
        table.add_row(name, *(NONE if score.mean is None else shown(score.mean, score.spread) for score in scores))
    return table


def _tier_scores(found: Comparison) -> Table:
    rows = list(found.rows.values())
    table = new_table(
        f"Mean {'accuracy' if rows[0].has_accuracy else 'loss'} by the share p of neurons of FedSPU's tiers"
    )
    table.add_column("method", overflow="fold")
    for tier in rows[0].tiers:
        table.add_column(f"p = {tier['keep']:g}", justify="right")
    for row in rows:
        shown = (percent(tier["accuracy"]) if "accuracy" in tier else number(tier["loss"]) for tier in row.tiers)
        table.add_row(row.method, *shown)
    return table


def _tier_costs(row: ComparisonRow) -> Table:
    """Of a tier in which nobody has trained there are none."""
    table = new_table(f"Costs per client round of {row.method} by p; memory: account exact")
    for column in ("p", "clients", "rounds", "payload", "of dense", "MFLOP", "time", "memory"):
        table.add_column(column, justify="right")
    for tier in row.tiers:
        cells = [f"{tier['keep']:g}", f"{tier['clients']:g}", f"{tier['client_rounds']:g}"]
        if tier["client_rounds"]:
            share = tier["bytes"] / tier["dense_bytes"] if tier["dense_bytes"] else None
            cells += [f"{tier['bytes'] / 1e3:.1f} kB", percent(share), _mega(tier[EXECUTED])]
            cells.append(f"{1e3 * tier['seconds']:.1f} ms")
        else:
            cells += [NONE] * 4
        table.add_row(*cells, f"{tier['memory_bytes'] / 1e3:.0f} kB")
    return table


def _masks(summaries: list[Summary]) -> Table:
    """By the density at which a round was trained. A method without masks is a row for comparison."""
    table = new_table("Densities, costs per client round; MFLOP nominal, executed and to move the mask")
    columns = ["density", "rounds", "payload", "of dense", "nominal", "executed", "moving", "time", "memory"]
    table.add_column("method")
    for column in columns:
        table.add_column(column, justify="right")
    for summary in summaries:
        for row in summary.densities:
            table.add_row(
                summary.method,
                f"{row['density']:g}",
                str(row["client_rounds"]),
                f"{row['bytes'] / 1e3:.1f} kB",
                percent(row["bytes"] / row["dense_bytes"] if row["dense_bytes"] else None),
                *(_mega(row[name]) for name in ("nominal_flops", EXECUTED, SEARCH)),
                f"{1e3 * row['seconds']:.1f} ms",
                "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e3:.0f} kB",
            )
    return table


def _mega(flops: float | None) -> str:
    return "" if flops is None else f"{flops / 1e6:.4g}"

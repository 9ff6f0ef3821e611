"""Tables of the figures of a run, for a terminal of 80 columns or more. summary.py and comparison.py compute the
figures. table_formats.py writes other formats.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any

from rich.console import Console

from edgefl.methods.rounds.client_round import EXECUTED, SEARCH
from edgefl.study.comparison import Comparison, ComparisonRow, Figure, Summaries, compare
from edgefl.study.device_tables import device_tables, duration, energy
from edgefl.study.difference_tables import difference_table
from edgefl.study.energy_totals import words
from edgefl.study.place_scores import HEADINGS, place_number
from edgefl.study.result_table import ResultPage, ResultTable, new_result_table
from edgefl.study.result_text import NONE, megabytes, number, percent, sentences
from edgefl.study.summary import COMMON, MODELS, NOT_AGGREGATED, Summary
from edgefl.study.table_style import styled

LOST = ("missing", "diverged")  # counts of clients that get a column if there are any
NEGLIGIBLE = 0.01  # share of the payload up to which numbers beside the payload get no column
SPENT = {  # name of a budget -> function that writes it in words
    "rounds": lambda spent: f"{spent:.4g} rounds",
    "bytes": megabytes,
    "seconds": lambda spent: f"{spent:.1f} s",
    "work": lambda spent: f"{spent / 1e9:.4g} GFLOP",
    "virtual-seconds": lambda spent: f"{duration(spent)}*",
    "joules": lambda spent: f"{energy(spent)}*",
}

Column = tuple[str, Callable[[ComparisonRow], str]]  # heading of a column, and writer of a method's cell


def console() -> Console:
    """Return the terminal, or without a terminal plain text of 100 columns without colours."""
    return Console() if sys.stdout.isatty() else Console(width=100, color_system=None, force_terminal=False)


def as_text(page: ResultPage, width: int) -> str:
    """Return the output of `print_page` in lines of so many columns, always without colours."""
    lines = StringIO()
    plain = Console(file=lines, width=width, force_jupyter=False, force_terminal=False, color_system=None)
    print_page(plain, page)
    return lines.getvalue()


def print_page(console: Console, page: ResultPage) -> None:
    """Print the tables, then the sentences, each on one line."""
    for table in page.tables:
        console.print(styled(table))
    for sentence in page.sentences:
        console.print(sentence, soft_wrap=True, markup=False)


def print_tables(
    console: Console, by_seed: Summaries, budgets: Mapping[str, float] = {}, accuracy: float | None = None
) -> None:
    """Print the page that `result_page` returns."""
    print_page(console, result_page(by_seed, budgets, accuracy))


def result_page(
    by_seed: Summaries,
    budgets: Mapping[str, float] = {},
    accuracy: float | None = None,
    beside: Iterable[str] = (),
) -> ResultPage:
    """Return the methods side by side, at their ends, at equal budgets and at an accuracy, their differences, the
    modelled devices, the capacity tiers, and the gains in sentences.

    budgets   budgets as for `compare`
    accuracy  accuracy as for `target`
    beside    more sentences, which follow
    """
    found, first = compare(by_seed, budgets), list(next(iter(by_seed.values())))
    tables = [method_table(found, by_seed)]
    if len(found.rows) > 1:
        tables += [budget_table(found), difference_table(found)]
    tables += device_tables(by_seed, accuracy)
    for row in found.rows.values():
        if row.method.startswith("fedspu"):
            tables += [tier_score_table(found), tier_cost_table(row)]
            break
    if any(summary.density is not None for summary in first):
        tables.append(mask_table(first))
    return ResultPage(tuple(tables), (*sentences(by_seed, found), *beside))


def method_table(found: Comparison, by_seed: Summaries) -> ResultTable:
    """Return a row per method: its score and its cost."""
    each = {name: [s for of in by_seed.values() for s in of if s.method == name] for name in found.rows}
    rows, one = list(found.rows.values()), next(iter(each.values()))[0]
    decisions = one.evaluation[one.kind].get("decisions", 1)
    what = f"{one.score} of {decisions} decisions" if decisions > 1 else one.score
    of_seeds = f", {len(found.seeds)} seeds" if len(found.seeds) > 1 else ""
    rounds = {row.rounds.mean for row in rows}
    after = f", rounds: {rounds.pop():g}" if len(rounds) == 1 else ""
    title = f"Mean {what} on clients' own test samples, and its cost{of_seeds}{after}"
    columns = [
        *_score_columns(rows, one.score),
        *_place_columns(rows),
        *_cost_columns(rows, each, not after),
        *_reply_columns(rows, each),
    ]
    if any(COMMON in of[0].evaluation for of in each.values()):
        columns.append(("common test", lambda row: _of_common([s.evaluation.get(COMMON) for s in each[row.method]])))
    cells = ((row.method, MODELS[row.kind], *(cell(row) for _, cell in columns)) for row in rows)
    return new_result_table(title, ["method", "model", *(heading for heading, _ in columns)], cells, left=2)


def _score_columns(rows: Sequence[ComparisonRow], score: str) -> Iterator[Column]:
    """Yield the columns of scores on clients' own test samples. `score` is the heading: "accuracy" or "loss"."""
    yield score, lambda row: _score(row, row.score.mean, row.score.spread)
    yield "worst tenth", lambda row: _score(row, row.worst_tenth.mean)
    if any(row.refreshed for row in rows):
        yield "refreshed", lambda row: _score(row, row.refreshed.mean, row.refreshed.spread) if row.refreshed else ""
    if any(row.held_out for row in rows):
        yield "held out", lambda row: _score(row, row.held_out.mean, row.held_out.spread) if row.held_out else ""
        yield "its worst", lambda row: _score(row, of.mean) if (of := row.held_out_worst_tenth) else ""


def _place_columns(rows: Sequence[ComparisonRow]) -> Iterator[Column]:
    """Yield the column of the perplexity of tokens or of the mean IoU of pixels, if there is any."""

    def cell(name: str, row: ComparisonRow) -> str:
        found: Figure | None = getattr(row, name)
        return "" if found is None else place_number(name, found.mean, found.spread)

    for name, heading in HEADINGS.items():
        if any(getattr(row, name) for row in rows):
            yield heading, partial(cell, name)


def _cost_columns(
    rows: Sequence[ComparisonRow], each: Mapping[str, Sequence[Summary]], has_rounds: bool
) -> Iterator[Column]:
    """Yield the columns of rounds, bytes, time, energy and work. `each` has the summaries of a method by its name, one
    per seed. `has_rounds` says whether methods ended after different numbers of rounds.
    """
    first = {name: of[0] for name, of in each.items()}
    if has_rounds:
        yield "rounds", lambda row: f"{row.rounds.mean or 0:.4g}"
    yield "payload", lambda row: megabytes(row.payload_bytes.mean or 0)
    if any(summary.scalar_bytes > NEGLIGIBLE * summary.payload_bytes for summary in first.values()):
        yield "numbers", lambda row: megabytes(first[row.method].scalar_bytes)
    yield "of dense", lambda row: percent(row.of_dense)
    yield "time", lambda row: f"{row.device_seconds.mean or 0:.1f} s"
    if any(summary.measured_joules for summary in first.values()):
        yield "measured", lambda row: NONE if (of := first[row.method].measured_joules) is None else words(of)
    if any(summary.density is not None for summary in first.values()):
        yield "density", lambda row: "1" if (of := first[row.method].density) is None else f"{of:g}"
        yield "GFLOP", lambda row: "" if (of := first[row.method].flops) is None else f"{of / 1e9:.4g}"


def _reply_columns(rows: Sequence[ComparisonRow], each: Mapping[str, Sequence[Summary]]) -> Iterator[Column]:
    """Yield columns with numbers of replies that were not aggregated and of clients that were lost, if there are any.

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
    """Write an accuracy or a loss of the row's method, with its spread over the seeds."""
    return percent(mean, spread) if row.has_accuracy else number(mean, spread)


def _of_common(found: Sequence[Mapping[str, Any] | None]) -> str:
    """Write the score on the test set that no client owns, as a mean over seeds. The cell is empty if the method has no
    model of all clients.
    """
    known = [each for each in found if each is not None]
    if not known:
        return ""
    if "correct" not in known[0]:
        return number(Figure(tuple(each["loss"] for each in known)).mean)
    return percent(sum(each["correct"] / (each["examples"] * each.get("decisions", 1)) for each in known) / len(known))


def budget_table(found: Comparison) -> ResultTable:
    more = "; * by the model of the devices" if "joules" in found.budgets else ""
    budgets = found.budgets.values()

    def cells(row: ComparisonRow) -> Iterator[str]:
        yield row.method
        for score in (budget.scores[row.method] for budget in budgets):
            yield NONE if score.mean is None else _score(row, score.mean, score.spread)

    headings = ["method", *(SPENT[budget.name](budget.least.mean or 0) for budget in budgets)]
    title = f"The same at equal rounds, bytes, device time and work{more}"
    return new_result_table(title, headings, map(cells, found.rows.values()))


def tier_score_table(found: Comparison) -> ResultTable:
    rows = list(found.rows.values())
    what = "accuracy" if rows[0].has_accuracy else "loss"

    def cells(row: ComparisonRow) -> Iterator[str]:
        yield row.method
        yield from (percent(tier["accuracy"]) if "accuracy" in tier else number(tier["loss"]) for tier in row.tiers)

    headings = ["method", *(f"p = {tier['keep']:g}" for tier in rows[0].tiers)]
    return new_result_table(f"Mean {what} by the share p of neurons of FedSPU's tiers", headings, map(cells, rows))


def tier_cost_table(row: ComparisonRow) -> ResultTable:
    """Return the costs by tier. A tier in which no client has trained has no costs."""
    headings = ("p", "clients", "rounds", "payload", "of dense", "MFLOP", "time", "memory")
    title = f"Costs per client round of {row.method} by p; memory: account exact"
    return new_result_table(title, headings, map(_tier_cells, row.tiers), left=0)


def _tier_cells(tier: Mapping[str, Any]) -> list[str]:
    cells = [f"{tier['keep']:g}", f"{tier['clients']:g}", f"{tier['client_rounds']:g}"]
    if tier["client_rounds"]:
        share = tier["bytes"] / tier["dense_bytes"] if tier["dense_bytes"] else None
        cells += [f"{tier['bytes'] / 1e3:.1f} kB", percent(share), _mega(tier[EXECUTED])]
        cells.append(f"{1e3 * tier['seconds']:.1f} ms")
    else:
        cells += [NONE] * 4
    memory = tier["memory_bytes"]
    return [*cells, NONE if memory is None else f"{memory / 1e3:.0f} kB"]


def mask_table(summaries: list[Summary]) -> ResultTable:
    """Return the costs by the density at which a round was trained. A method without masks has a row for comparison."""
    title = "Densities, costs per client round; MFLOP nominal, executed and to move the mask"
    headings = ("method", "density", "rounds", "payload", "of dense", "nominal", "executed", "moving", "time", "memory")
    rows = (_mask_cells(summary.method, row) for summary in summaries for row in summary.densities)
    return new_result_table(title, headings, rows)


def _mask_cells(method: str, row: Mapping[str, Any]) -> list[str]:
    return [
        method,
        f"{row['density']:g}",
        str(row["client_rounds"]),
        f"{row['bytes'] / 1e3:.1f} kB",
        percent(row["bytes"] / row["dense_bytes"] if row["dense_bytes"] else None),
        *(_mega(row[name]) for name in ("nominal_flops", EXECUTED, SEARCH)),
        f"{1e3 * row['seconds']:.1f} ms",
        "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e3:.0f} kB",
    ]


def _mega(flops: float | None) -> str:
    return "" if flops is None else f"{flops / 1e6:.4g}"

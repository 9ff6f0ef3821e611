"""The sections of results: tables of methods, their paired differences, tiers, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from edgefl.study.comparison import Comparison, Figure, compare
from edgefl.study.device_tables import device_tables
from edgefl.study.difference_tables import difference_table
from edgefl.study.energy_totals import words
from edgefl.study.paired_differences import MethodPair, PairedDifference
from edgefl.study.report import html_parts
from edgefl.study.report.interval_chart import IntervalRow, interval_chart
from edgefl.study.report.reported_run import ReportedRun
from edgefl.study.result_table import ResultTable, new_result_table
from edgefl.study.result_text import NONE, percent, sentences
from edgefl.study.summary import Summary
from edgefl.study.tables import budget_table, mask_table, method_table, tier_cost_table, tier_score_table

MOST_PAIRS = 15  # most pairs in a chart
WHAT_IT_IS = (
    "The first method less the second one, on the same clients or with the same seeds, with 95 % intervals by "
    "Student's t. The interval over the clients of a seed says how far the difference would move with other clients of "
    "the same kind; the interval over seeds has the draws of data, first model and clients in it."
)
Parts = Callable[[ReportedRun, Comparison], Iterator[str]]


def result_section(runs: Sequence[ReportedRun]) -> str:
    """Return the tables of results at the ends of the runs, and sentences about them."""
    return _of_each("results", "Results", runs, _results)


def difference_section(runs: Sequence[ReportedRun]) -> str:
    """Return the difference of every two methods."""
    compared = [run for run in runs if len(run.methods) > 1]
    return _of_each("differences", "Paired differences", compared, _differences, WHAT_IT_IS)


def tier_section(runs: Sequence[ReportedRun]) -> str:
    """Return scores and costs by the share of neurons that clients train."""
    return _of_each("tiers", "Capacity tiers", runs, _tiers)


def cost_section(runs: Sequence[ReportedRun]) -> str:
    """Return bytes by purpose, time, work and energy."""
    return _of_each("costs", "Costs", runs, _costs)


def _of_each(id: str, title: str, runs: Sequence[ReportedRun], parts: Parts, words: str = "") -> str:
    """Return a section with the parts of each run that has figures. `words` stand at its head."""
    found = list[str]()
    for run in (run for run in runs if run.by_seed):
        made = [part for part in parts(run, compare(run.by_seed)) if part]
        found += [html_parts.heading(run.name), *made] if len(runs) > 1 and made else made
    return html_parts.section(id, title, [html_parts.paragraph(words), *found] if found and words else found)


def _results(run: ReportedRun, found: Comparison) -> Iterator[str]:
    yield html_parts.table(method_table(found, run.by_seed))
    if len(found.rows) > 1:
        yield html_parts.table(budget_table(found))
    for each in device_tables(run.by_seed):
        yield html_parts.table(each)
    yield html_parts.listed([*sentences(run.by_seed, found), *run.tuning])


def _differences(run: ReportedRun, found: Comparison) -> Iterator[str]:
    several = len(found.seeds) > 1
    has_accuracy = next(iter(found.rows.values())).has_accuracy
    yield html_parts.figures(
        _intervals(found, over, has_accuracy) for over in (["seeds", "clients"] if several else ["clients"])
    )
    yield html_parts.table(difference_table(found, has_all=True))


def _intervals(found: Comparison, over: str, has_accuracy: bool) -> str:
    size = 100 if has_accuracy else 1

    def row(pair: MethodPair, each: PairedDifference) -> IntervalRow:
        low, high = (None if end is None else size * end for end in (each.low, each.high))
        return IntervalRow(f"{pair.method} less {pair.other}", size * (each.mean or 0.0), low, high)

    pairs = [(pair, pair.over_seeds if over == "seeds" else pair.over_clients[found.seeds[0]]) for pair in found.pairs]
    rows = [row(pair, each) for pair, each in pairs if each.mean is not None][:MOST_PAIRS]
    if not rows:
        return ""
    where = f"over {len(found.seeds)} seeds" if over == "seeds" else "over the clients"
    where += f" of seed {found.seeds[0]}" if over == "clients" and len(found.seeds) > 1 else ""
    unit = "points of accuracy" if has_accuracy else "loss"
    said = [
        f"{each.name}: {each.mean:+.3g}" + ("" if each.low is None else f" from {each.low:+.3g} to {each.high:+.3g}")
        for each in rows
    ]
    caption = f"Differences {where}, {unit}"
    return html_parts.figure(caption, interval_chart(rows, unit, f"{caption}: {'; '.join(said)}."))


def _tiers(run: ReportedRun, found: Comparison) -> Iterator[str]:
    rows = list(found.rows.values())
    if len(rows[0].tiers) > 1:
        yield html_parts.table(tier_score_table(found))
    for row in rows:
        if any(tier["client_rounds"] for tier in row.tiers):
            yield html_parts.table(tier_cost_table(row))
    first = next(iter(run.by_seed.values()))
    if any(summary.density is not None for summary in first):
        yield html_parts.table(mask_table(first))


def _costs(run: ReportedRun, found: Comparison) -> Iterator[str]:
    yield html_parts.table(_cost_table(run, found))
    if run.socket_bytes is not None:
        sockets = f"{run.socket_bytes / 1e6:.2f} MB"
        yield html_parts.paragraph(
            f"Through the server's sockets went {sockets}, with evaluations, models and the headers of messages."
        )


def _cost_table(run: ReportedRun, found: Comparison) -> ResultTable:
    each = {name: run.summaries_of(name) for name in found.rows}
    of_seeds = ", means over seeds" if len(found.seeds) > 1 else ""
    headings = ["method", "down", "up", "values", "ids", "headers", "of dense", "training", "rounds took", "GFLOP"]
    has_joules = any(summary.measured_joules for of in each.values() for summary in of)
    headings += ["measured energy"] if has_joules else []
    rows = [
        [name, *_cost_cells(of, found.rows[name].of_dense), *([_energy(of)] if has_joules else [])]
        for name, of in each.items()
    ]
    return new_result_table(f"What the methods cost{of_seeds}", headings, rows)


def _cost_cells(of: Sequence[Summary], of_dense: float | None) -> Iterator[str]:
    for way in ("down", "up"):
        yield f"{sum(sum(getattr(summary, way).values()) for summary in of) / len(of) / 1e6:.2f} MB"
    for part in ("values", "index", "header"):
        yield f"{sum(summary.down[part] + summary.up[part] for summary in of) / len(of) / 1e6:.2f} MB"
    yield percent(of_dense)
    yield f"{sum(summary.device_seconds for summary in of) / len(of):.1f} s"
    yield f"{sum(summary.seconds for summary in of) / len(of):.1f} s"
    work = Figure(tuple(summary.work for summary in of)).mean
    yield NONE if work is None else f"{work / 1e9:.4g}"


def _energy(of: Sequence[Summary]) -> str:
    """Return the measured energy of the first seed as a cell."""
    found = of[0].measured_joules
    return NONE if found is None else words(found)

"""The section of clients: the distribution of their scores, and the clients with the worst scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgefl.methods.sampling import tier
from edgefl.study.report import html_parts
from edgefl.study.report.curve_section import PERCENT, PLAIN, Looks
from edgefl.study.report.line_chart import CurveSeries, LineChart, as_steps
from edgefl.study.report.mean_curves import CurvePoint, thinned
from edgefl.study.report.reported_run import ReportedRun
from edgefl.study.result_table import ResultTable, new_result_table
from edgefl.study.result_text import NONE, number, percent
from edgefl.study.summary import Summary

WORST = 10  # number of clients in the table that is open
MOST = 200  # number of clients in the table of all


def client_section(runs: Sequence[ReportedRun], looks: Looks) -> str:
    """Return a chart and a table for each run."""
    drawn = html_parts.figures(_distribution(i, run, len(runs) > 1, looks) for i, run in enumerate(runs) if run.by_seed)
    parts = [part for run in runs if run.by_seed for part in _tables(run, len(runs) > 1)]
    return html_parts.section("clients", "Clients", [drawn, *parts])


def _distribution(place: int, run: ReportedRun, has_name: bool, looks: Looks) -> str:
    """Draw the share of the clients that have at most a given score, over all seeds."""
    first = run.summaries_of(run.methods[0])[0]
    series = [
        CurveSeries(method, looks[place, method], _shares(run.summaries_of(method), first.score))
        for method in run.methods
    ]
    series = [each for each in series if each.points]
    unit = PERCENT if first.has_accuracy else PLAIN
    words = f"a client's {first.score}" + (", %" if first.has_accuracy else "")
    chart = LineChart(words, "clients with at most so much, %", series, unit, PERCENT, (0.0, 1.0))
    whose = f" of {run.name}" if has_name else ""
    caption = f"How the clients{whose} are distributed" + (
        f", {len(run.by_seed)} seeds" if len(run.by_seed) > 1 else ""
    )
    worst = [f"{each.name}: the client that has least {_shown(first, each.points[0].x)}" for each in series]
    described = f"{caption}: share of clients over {first.score}. {'; '.join(worst)}."
    return (
        html_parts.figure(caption, chart.svg(described), [(each.name, each.look) for each in series]) if series else ""
    )


def _shares(summaries: Sequence[Summary], score: str) -> list[CurvePoint]:
    found = sorted(value for each in summaries if each.score == score for value in each.by_client if value is not None)
    points = [CurvePoint(value, (i + 1) / len(found), *[(i + 1) / len(found)] * 2) for i, value in enumerate(found)]
    last = {point.x: point for point in points}  # the highest step among equal scores
    return as_steps(thinned([CurvePoint(found[0], 0.0, 0.0, 0.0), *last.values()], 150)) if found else []


def _tables(run: ReportedRun, has_name: bool) -> Iterator[str]:
    seed, summaries = next(iter(run.by_seed.items()))
    first, whose = summaries[0], f" of {run.name}" if has_name else ""
    of_seed = f", seed {seed}" if run.experiment.seeds > 1 else ""
    order = _worst_first(first)
    what = f"{first.score} of each method at the last evaluation{of_seed}"
    title = f"The clients{whose} that do worst with {first.method}: {what}"
    yield html_parts.table(_clients(title, run, summaries, order[:WORST]))
    if len(order) > WORST:
        count = f"All {len(order)} clients" if len(order) <= MOST else f"The {MOST} worst of {len(order)} clients"
        yield html_parts.hidden(
            f"{count}{whose}", [html_parts.table(_clients(f"{count}{whose}: {what}", run, summaries, order[:MOST]))]
        )


def _worst_first(first: Summary) -> list[int]:
    """Sort clients by score, the worst first. Clients without a number come before all others."""
    sign = 1 if first.has_accuracy else -1
    scores = first.by_client
    return sorted(range(len(scores)), key=lambda k: (scores[k] is not None, sign * (scores[k] or 0.0), k))


def _clients(title: str, run: ReportedRun, summaries: Sequence[Summary], order: Sequence[int]) -> ResultTable:
    examples = summaries[0].evaluation[summaries[0].kind]["examples"]
    scores = [summary.by_client for summary in summaries]

    def cells(client: int) -> Iterator[str]:
        keep = tier(run.experiment.keep, client, run.experiment.clients)
        yield from (str(client), f"{keep:g}", NONE if examples[client] is None else str(examples[client]))
        for summary, of in zip(summaries, scores, strict=True):
            yield _shown(summary, of[client])

    headings = ("client", "p", "test samples", *(summary.method for summary in summaries))
    return new_result_table(title, headings, map(cells, order), left=0)


def _shown(summary: Summary, value: float | None) -> str:
    if value is None:
        return NONE
    return percent(value) if summary.has_accuracy else number(value)

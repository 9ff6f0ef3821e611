"""The section of curves: the score over rounds, over bytes, over time and energy, and the loss of training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from edgefl.learning.scores import MEAN_IOU, PERPLEXITY, PLACE_SCORES
from edgefl.study.report import html_parts
from edgefl.study.report.chart_scale import BYTES, COUNTS, JOULES, SECONDS, AxisUnit, unit_for
from edgefl.study.report.line_chart import CurveSeries, LineChart
from edgefl.study.report.looks import LineLook
from edgefl.study.report.mean_curves import CurvePoint, mean_curve, thinned
from edgefl.study.report.reported_run import ReportedRun
from edgefl.study.result_table import new_result_table

PERCENT = AxisUnit("%", 0.01)
PLAIN = COUNTS[0]
ROWS = 20  # number of rows of a curve as a table
CAPTIONS = {
    "accuracy": "Accuracy",
    "loss": "Loss on test samples",
    "train_loss": "Loss of training",
    PERPLEXITY: "Perplexity",
    MEAN_IOU: "Mean IoU",
}
SHARES = {"accuracy": "mean accuracy, %", MEAN_IOU: "mean IoU, %"}
LABELS = {"loss": "mean loss", "train_loss": "mean loss", PERPLEXITY: "perplexity", **SHARES}


class SpentAxis(NamedTuple):
    """The cost that curves are drawn over: its name in a curve's points, its title and its units."""

    key: str
    title: str
    units: Sequence[AxisUnit]


ROUNDS = SpentAxis("round", "rounds", COUNTS)
SPENT = (
    ROUNDS,
    SpentAxis("payload_bytes", "payload", BYTES),
    SpentAxis("device_seconds", "training time of all clients", SECONDS),
    SpentAxis("virtual_seconds", "time by the model of the devices", SECONDS),
    SpentAxis("virtual_joules", "energy by the model of the devices", JOULES),
)
Looks = Mapping[tuple[int, str], LineLook]


def curve_section(runs: Sequence[ReportedRun], looks: Looks) -> str:
    """Return the charts of all curves. All runs are in one chart of each kind."""
    drawn = [
        figure for score in ("accuracy", "loss") for spent in SPENT for figure in _curves(runs, looks, score, spent)
    ]
    drawn += [figure for score in (*PLACE_SCORES, "train_loss") for figure in _curves(runs, looks, score, ROUNDS)]
    several = any(len(run.by_seed) > 1 for run in runs)
    words = [
        "A line is the mean over seeds, and the band around it is one standard deviation over seeds on either side."
        if several
        else "Each line is one seed.",
        "The score is the unweighted mean over clients on their own test samples.",
    ]
    return html_parts.section(
        "curves", "Curves", [html_parts.paragraph(" ".join(words)), html_parts.figures(drawn)] if drawn else []
    )


def _curves(runs: Sequence[ReportedRun], looks: Looks, score: str, spent: SpentAxis) -> Iterator[str]:
    """Yield one figure, or no figure if no run has such a curve."""
    series = [
        CurveSeries(label(runs, run, method), looks[i, method], points)
        for i, run in enumerate(runs)
        for method in run.methods
        if (points := mean_curve(run.summaries_of(method), spent.key, score))
    ]
    most = max((each.points[-1].x for each in series), default=0.0)
    if not series or most <= 0:
        return
    unit = unit_for(most, spent.units)
    is_share = score in SHARES
    chart = LineChart(
        x_label=f"{spent.title} so far, {unit.name}" if unit.name else "round",
        y_label=LABELS[score],
        series=series,
        x_unit=unit,
        y_unit=PERCENT if is_share else PLAIN,
        y_limits=(0.0, 1.0) if is_share else (0.0, math.inf),
        is_whole=spent is ROUNDS,
    )
    caption = f"{CAPTIONS[score]} over {spent.title}"
    entries = [(each.name, each.look) for each in series]
    below = html_parts.hidden("The same as a table", [_as_table(caption, chart)])
    yield html_parts.figure(caption, chart.svg(_described(caption, chart)), entries, below)


def label(runs: Sequence[ReportedRun], run: ReportedRun, method: str) -> str:
    """Return the name of a line: the method, and its run if there are several runs."""
    return method if len(runs) == 1 else f"{run.name}: {method}"


def _described(caption: str, chart: LineChart) -> str:
    ends = [f"{each.name} ends at {_value(each.points[-1].y, chart.y_unit)}" for each in chart.series]
    return f"{caption}: {'; '.join(ends)}."


def _as_table(caption: str, chart: LineChart) -> str:
    rows = [
        (each.name, _value(p.x, chart.x_unit), _value(p.y, chart.y_unit), _value((p.high - p.low) / 2, chart.y_unit))
        for each in chart.series
        for p in _few(each.points)
    ]
    headings = ("line", chart.x_label, chart.y_label, "standard deviation over seeds")
    return html_parts.table(new_result_table(caption, headings, rows), is_sortable=False)


def _few(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    return thinned(points, ROWS)


def _value(value: float, unit: AxisUnit) -> str:
    return f"{value / unit.size:.4g}" + (f" {unit.name}" if unit.name else "")

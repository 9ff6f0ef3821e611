"""Differences with their intervals as an SVG picture: a row for each pair of methods, and a line at difference 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from edgefl.study.report.chart_scale import AxisScale, fitted, tick_text

WIDTH = 400.0
LEFT, RIGHT, TOP, BOTTOM, ROW = 12.0, 12.0, 4.0, 40.0, 34.0
MOST_LETTERS = 58  # most letters of a row's name


class IntervalRow(NamedTuple):
    """A row: its name, its mean, and the ends of its interval, if it has one."""

    name: str
    mean: float
    low: float | None
    high: float | None


def interval_chart(rows: Sequence[IntervalRow], label: str, described: str) -> str:
    """Draw the picture. `label` stands below the axis. `described` is the picture in words, for blind readers."""
    bottom = TOP + ROW * len(rows)
    ends = [end for row in rows for end in (row.mean, row.low, row.high) if end is not None]
    scale = fitted([0.0, *ends], LEFT, WIDTH - RIGHT)
    parts = [*_axis(scale, bottom, label), *(part for i, row in enumerate(rows) for part in _row(row, i, scale))]
    size = f'viewBox="0 0 {WIDTH:g} {bottom + BOTTOM:g}"'
    return f'<svg role="img" {size} aria-label="{escape(described)}">{"".join(parts)}</svg>'


def _axis(scale: AxisScale, bottom: float, label: str) -> Iterator[str]:
    yield f'<path class="zero" d="M{scale.place(0):.1f} {TOP:g}V{bottom:g}"/>'
    yield f'<path class="axis" d="M{LEFT:g} {bottom:g}H{WIDTH - RIGHT:g}"/>'
    for value in scale.ticks(7):
        yield f'<path class="axis" d="M{scale.place(value):.1f} {bottom:g}v4"/>'
        yield f'<text class="middle" x="{scale.place(value):.1f}" y="{bottom + 15:g}">{tick_text(value)}</text>'
    yield f'<text class="middle" x="{WIDTH / 2:g}" y="{bottom + BOTTOM - 6:g}">{escape(label)}</text>'


def _row(row: IntervalRow, place: int, scale: AxisScale) -> Iterator[str]:
    y = TOP + ROW * place + 24
    name = row.name if len(row.name) <= MOST_LETTERS else f"{row.name[: MOST_LETTERS - 1]}…"
    yield f'<text x="{LEFT:g}" y="{y - 11:g}">{escape(name)}</text>'
    if row.low is not None and row.high is not None:
        low, high = scale.place(row.low), scale.place(row.high)
        yield f'<path class="interval" d="M{low:.1f} {y - 4:g}v8m0 -4H{high:.1f}m0 -4v8"/>'
    yield f'<circle class="mean" cx="{scale.place(row.mean):.1f}" cy="{y:g}" r="3.5"/>'

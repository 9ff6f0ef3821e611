"""Curves as an SVG picture: lines, bands of the spread between seeds, markers, axes with round ticks. The module also
draws steps, as for a distribution. curve_section.py and client_section.py choose the curves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from edgefl.study.report.chart_scale import AxisScale, AxisUnit, fitted, tick_text
from edgefl.study.report.looks import LineLook
from edgefl.study.report.mean_curves import CurvePoint

WIDTH, HEIGHT = 400.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 12.0, 10.0, 40.0
MARKERS = 8  # number of markers of a line


@dataclass(frozen=True)
class CurveSeries:
    """One line: its name, its look, and its points in ascending order of x."""

    name: str
    look: LineLook
    points: Sequence[CurvePoint]


@dataclass(frozen=True)
class LineChart:
    """A chart of lines over two axes.

    x_label, y_label  words at the two axes, with their units
    x_unit, y_unit    units of the ticks
    y_limits          bounds beyond which no value of y can be
    is_whole          whether ticks of x are whole numbers
    """

    x_label: str
    y_label: str
    series: Sequence[CurveSeries]
    x_unit: AxisUnit
    y_unit: AxisUnit
    y_limits: tuple[float, float] = (-math.inf, math.inf)
    is_whole: bool = False

    @property
    def points(self) -> list[CurvePoint]:
        return [point for each in self.series for point in each.points]

    def svg(self, described: str) -> str:
        """Draw the picture. `described` is the picture in words, for blind readers."""
        x = _x_scale([point.x for point in self.points])
        y = self._y_scale()
        parts = [*_frame(self, x, y), *(part for each in self.series for part in self._line(each, x, y))]
        size = f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}"'
        return f'<svg role="img" {size} aria-label="{escape(described)}">{"".join(parts)}</svg>'

    def _y_scale(self) -> AxisScale:
        """Return the vertical scale of bands and lines. If the lines' values are steep, the scale fits the lines alone,
        as a band may reach below 0.
        """
        means = fitted([point.y for point in self.points], HEIGHT - BOTTOM, TOP, self.y_limits)
        ends = [end for point in self.points for end in (point.low, point.high)]
        return means if means.is_log else fitted(ends, HEIGHT - BOTTOM, TOP, self.y_limits, may_be_log=False)

    def _line(self, series: CurveSeries, x: AxisScale, y: AxisScale) -> Iterator[str]:
        """Draw a band, a line and markers. A marker shows its values where a pointer rests on it."""
        points = [(x.place(p.x), y.place(p.y), y.place(p.low), y.place(p.high)) for p in series.points]
        if not points:
            return
        classes = series.look.classes
        if x.low == series.points[-1].x < x.high:  # the method spends nothing, so its line is level
            yield f'<path class="line {classes}" d="M{LEFT:g} {points[-1][1]:.1f}H{WIDTH - RIGHT:g}"/>'
            points = points[-1:]
        if any(abs(low - high) > 0.05 for _, _, low, high in points):
            edge = [(px, high) for px, _, _, high in points] + [(px, low) for px, _, low, _ in reversed(points)]
            yield f'<path class="band {classes}" d="{_path(edge)}Z"/>'
        yield f'<path class="line {classes}" d="{_path([(px, py) for px, py, _, _ in points])}"/>'
        every = max(1, len(points) // MARKERS)
        for i in range(-1, -len(points) - 1, -every):
            px, py, _, _ = points[i]
            title = escape(self._said(series, i))
            yield f'<path class="mark {classes}" d="{series.look.marker(px, py)}"><title>{title}</title></path>'

    def _said(self, series: CurveSeries, place: int) -> str:
        """Describe a point of a line in words."""
        point = series.points[place]
        y = f"{tick_text(point.y / self.y_unit.size)} {self.y_unit.name}".strip()
        return f"{series.name}: {y} at {tick_text(point.x / self.x_unit.size)} {self.x_unit.name}".strip()


def _x_scale(values: Sequence[float]) -> AxisScale:
    """Return the horizontal scale from 0, or from the first value if it is negative, to the last value."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    first = 0.0 if low >= 0 else low
    return AxisScale(first, high if high > first else first + 1.0, LEFT, WIDTH - RIGHT)


def _frame(chart: LineChart, x: AxisScale, y: AxisScale) -> Iterator[str]:
    """Draw the lines of a grid, ticks and words."""
    bottom, middle = HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2
    for value in _in_unit(y, chart.y_unit).ticks(6):
        at = _in_unit(y, chart.y_unit).place(value)
        yield f'<path class="grid" d="M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}"/>'
        yield f'<text class="end" x="{LEFT - 5:g}" y="{at + 3.5:.1f}">{tick_text(value)}</text>'
    for value in _in_unit(x, chart.x_unit).ticks(7, chart.is_whole):
        at = _in_unit(x, chart.x_unit).place(value)
        yield f'<path class="axis" d="M{at:.1f} {bottom:g}v4"/>'
        yield f'<text class="middle" x="{at:.1f}" y="{bottom + 15:g}">{tick_text(value)}</text>'
    yield f'<path class="axis" d="M{LEFT:g} {TOP:g}V{bottom:g}H{WIDTH - RIGHT:g}"/>'
    centre = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="middle" x="{centre:g}" y="{HEIGHT - 6:g}">{escape(chart.x_label)}</text>'
    turned = f'transform="rotate(-90 11 {middle:g})"'
    yield f'<text class="middle" x="11" y="{middle:g}" {turned}>{escape(chart.y_label)}</text>'


def _in_unit(scale: AxisScale, unit: AxisUnit) -> AxisScale:
    return AxisScale(scale.low / unit.size, scale.high / unit.size, scale.start, scale.end, scale.is_log)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points)


def as_steps(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the corners of a staircase that rises at each point."""
    found = list(points[:1])
    for before, after in pairwise(points):
        found += [CurvePoint(after.x, before.y, before.y, before.y), after]
    return found

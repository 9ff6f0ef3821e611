"""The picture of the tutorial: accuracy of own models over the bytes of a run, a labelled point for each row.

`python scripts/drawings.py` draws the record. The space that a label takes is estimated, because an SVG has the fonts
of its reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from bench.fine_tuning.record import Row

WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 880, 50, 420  # edges of the area of the points, in pixels
SIZE = 13  # of labels, in pixels
LETTER = 0.56  # mean width of a letter over the size
MB = 1e6
Box = tuple[float, float, float, float]  # left, top, right, bottom
SIDES = {"right": (10, 5, "start"), "left": (-10, 5, "end"), "above": (0, -10, "middle"), "below": (0, 20, "middle")}
PLACES: Mapping[str, str] = {  # name of a row -> side of its point on which its label stands, if not towards the middle
    "head": "below", "biases and head": "left", "last two blocks": "below", "FedSPU, everything": "above",
}  # fmt: skip


class Canvas(Protocol):
    """The methods of a Drawing of scripts/drawings.py that this picture calls."""

    def text(self, x: float, y: float, lines: str, size: int = 14, anchor: str = "middle") -> None: ...
    def line(self, *points: float, colour: str = "currentColor", width: float = 1.5, opacity: float = 1) -> None: ...
    def point(self, x: float, y: float, colour: str, is_filled: bool) -> None: ...


class Label(NamedTuple):
    """A label: where its text begins or ends."""

    text: str
    x: float
    y: float
    anchor: str

    @property
    def box(self) -> Box:
        width = LETTER * SIZE * len(self.text)
        left = {"start": self.x, "end": self.x - width, "middle": self.x - width / 2}[self.anchor]
        return left, self.y - SIZE, left + width, self.y + 0.3 * SIZE


class Scale(NamedTuple):
    """The axes: megabytes by their logarithm, and percent."""

    decades: tuple[int, int]
    percents: tuple[int, int]

    @staticmethod
    def of(rows: Iterable[Row]) -> Scale:
        """Return the axes that hold the rows, from a power of ten to the next, and from ten percent to the next."""
        rows = list(rows)
        sent = [math.log10(row["payload_bytes"] / MB) for row in rows if row["payload_bytes"]]
        own = [10 * row["own"] for row in rows]
        return Scale(
            (math.floor(min(sent)), math.ceil(max(sent))), (10 * math.floor(min(own)), 10 * math.ceil(max(own)))
        )

    def x(self, megabytes: float) -> float:
        low, high = self.decades
        return LEFT + (RIGHT - LEFT) * (math.log10(megabytes) - low) / (high - low)

    def y(self, percent: float) -> float:
        low, high = self.percents
        return BOTTOM - (BOTTOM - TOP) * (percent - low) / (high - low)


def place(scale: Scale, row: Row) -> tuple[float, float]:
    """Return the point of a row in pixels."""
    return scale.x(row["payload_bytes"] / MB), scale.y(100 * row["own"])


def label(scale: Scale, row: Row) -> Label:
    """Return the label of a row: beside its point, or at the end of its line if the row sends nothing."""
    if not row["payload_bytes"]:
        return Label(row["name"], RIGHT, scale.y(100 * row["own"]) + 18, "end")
    x, y = place(scale, row)
    dx, dy, anchor = SIDES[PLACES.get(row["name"], "left" if x > (LEFT + RIGHT) / 2 else "right")]
    return Label(row["name"], x + dx, y + dy, anchor)


def draw(canvas: Canvas, rows: Iterable[Row], colours: Mapping[str, str]) -> None:
    """Draw the rows. Points of methods are filled with the colours of the methods. Points of random weights are not
    filled.
    """
    rows = list(rows)
    scale = Scale.of(rows)
    for text, x, anchor in _axes(canvas, scale):
        canvas.text(x, BOTTOM + 22, text, SIZE, anchor)
    for row in rows:
        if row["payload_bytes"]:
            canvas.point(*place(scale, row), colours.get(row["method"], "currentColor"), row["weights"] != "random")
        else:
            height = scale.y(100 * row["own"])
            canvas.line(LEFT, height, RIGHT, height, opacity=0.5)
        at = label(scale, row)
        canvas.text(at.x, at.y, at.text, SIZE, at.anchor)


def _axes(canvas: Canvas, scale: Scale) -> Iterator[tuple[str, float, str]]:
    """Draw the lines and the titles of both axes, and yield the numbers of the level one."""
    low, high = scale.percents
    for percent in range(low, high + 1, 10):
        canvas.line(LEFT, scale.y(percent), RIGHT, scale.y(percent), width=1, opacity=0.15)
        canvas.text(LEFT - 8, scale.y(percent) + 4, f"{percent}", SIZE, "end")
    canvas.text(20, 24, "accuracy of the clients' own models, in percent", 14, "start")
    canvas.text((LEFT + RIGHT) / 2, BOTTOM + 46, "payload of the whole run in both directions, in MB", 14)
    for decade in range(scale.decades[0], scale.decades[1] + 1):
        canvas.line(scale.x(10**decade), BOTTOM, scale.x(10**decade), BOTTOM + 6)
        yield f"{10**decade:,}", scale.x(10**decade), "middle"

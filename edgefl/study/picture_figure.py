"""The matplotlib Figure of a picture: the positions of its panels, its legend, and its files. picture_panels.py draws
the contents of panels.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from edgefl.methods.rounds.round_metrics import REFRESHED, TRAINING
from edgefl.study.picture_panels import BAND, BESIDE, PANELS, SPENT, THIN, Content
from edgefl.study.picture_style import DPI, Theme

PANEL = 4.3, 3.1  # width and height of a panel, in inches
ROW = 3  # most panels in a row
LINE = 0.07  # share of a panel's height that a label needs
LETTER, HANDLE = 0.075, 0.55  # inches of a legend: a letter, and the space before its first letter
LEGEND, NOTES = 0.21, 0.16  # heights in inches of a line of the legend, and of a line of the text below the panels
MARGIN = 0.3  # inches at the side of a legend
NOTE = 8  # font size in points of the text below the panels
WORDS = {TRAINING: "on training samples", REFRESHED: "after a refresh"}
BANDED = {"rounds", "loss", *SPENT}  # panels with means over seeds and bands
UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # without a date, equal pictures are equal files


class Picture(Figure):
    """A Figure in the colours of a theme, which it also has when it is saved."""

    def __init__(self, theme: Theme, **options: Any) -> None:
        self._settings = theme.settings()
        with matplotlib.rc_context(self._settings):
            super().__init__(layout="constrained", **options)

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save the figure as Figure does, with text as text."""
        suffix = Path(fname).suffix.lower() if isinstance(fname, str | Path) else ""
        with matplotlib.rc_context(self._settings):
            super().savefig(fname, **{"dpi": DPI, "metadata": UNDATED.get(suffix), **options})

    def _repr_png_(self) -> bytes:
        """Return the PNG that a notebook shows."""
        content = io.BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def sheet(content: Content, panels: Sequence[str], theme: Theme, size: tuple[float, float] | None) -> Picture:
    """Draw all these panels in rows, with one legend and a sentence on what they show.

    size  width and height of the whole figure in inches. None: the size that fits the number of panels
    """
    rows = _rows(len(panels))
    width = size[0] if size else PANEL[0] * max(rows)
    handles = _handles(content, panels, theme)
    columns, note = _columns(handles, width), textwrap.fill(_note(content, panels), max(20, int(width * 16)))
    beside = LEGEND * -(-len(handles) // columns) + NOTES * (1 + note.count("\n"))
    height = size[1] if size else PANEL[1] * len(rows) + beside
    with matplotlib.rc_context(theme.settings()):
        figure = Picture(theme, figsize=(width, height))
        grid = figure.add_gridspec(len(rows), math.lcm(*rows))
        names = iter(panels)
        for row, count in enumerate(rows):
            span = math.lcm(*rows) // count
            for i in range(count):
                area = figure.add_subplot(grid[row, i * span : (i + 1) * span])
                PANELS[next(names)].draw(area, content)
        is_direct = len(panels) == 1 and _label_ends(figure.axes[0], content, panels[0])
        named = handles[len(content.methods) if is_direct else 0 :]
        if named:
            figure.legend(handles=named, loc="outside upper left", ncols=columns)
        figure.supxlabel(note, x=0.01, ha="left", fontsize=NOTE, alpha=0.85)
    return figure


def draw_on(areas: Sequence[Any], content: Content, panels: Sequence[str], theme: Theme) -> None:
    """Draw each panel on axes of the caller's own figure. The first axes get the legend."""
    for area, name in zip(areas, panels, strict=True):
        PANELS[name].draw(area, content)
    handles = _handles(content, panels, theme)
    areas[0].legend(handles=handles, fontsize="small", frameon=False, loc="best")


def _rows(count: int) -> list[int]:
    """Arrange so many panels in as few rows as possible. The lengths of two rows differ by at most one."""
    rows = -(-count // ROW)
    return [count // rows + (row < count % rows) for row in range(rows)]


def _columns(handles: Sequence[Any], width: float) -> int:
    """Return the number of columns of a legend of this width in inches: the most for which there is room."""
    widths = [HANDLE + LETTER * len(handle.get_label()) for handle in handles]
    for columns in range(len(widths), 1, -1):
        rows, longer = divmod(len(widths), columns)  # matplotlib fills column by column, the first ones are longer
        ends = [rows * i + min(i, longer) for i in range(columns + 1)]
        if sum(max(widths[low:high]) for low, high in pairwise(ends)) < width - MARGIN:
            return columns
    return 1


def _handles(content: Content, panels: Sequence[str], theme: Theme) -> list[Any]:
    """Return a legend entry for each method, then the entries for bands, seeds and scores of other kinds."""
    line: Any = Line2D  # matplotlib's type hints allow only literal names of markers and lines
    style = {"markersize": 5, "linewidth": 1.6}
    found: list[Any] = [
        line([], [], color=look.colour, marker=look.marker, linestyle=look.line, label=label, **style)
        for label, look in content.looks.items()
    ]
    if content.seed_count > 1 and set(panels) & BANDED:
        found.append(Patch(color=theme.ink, alpha=BAND, linewidth=0, label=f"± sd, {content.seed_count} seeds"))
        if content.seeds:
            found.append(line([], [], color=theme.ink, linewidth=0.7, alpha=THIN, label="one seed"))
    for kind, dashes in BESIDE.items():
        if "rounds" in panels and any(kind in summary.curve[-1] for summary in content.summaries):
            found.append(line([], [], color=theme.ink, linestyle=dashes, linewidth=1, label=WORDS[kind]))
    return found


def _label_ends(area: Any, content: Content, panel: str) -> bool:
    """Write each method's name at the right end of its line if every name has room there, or else no name."""
    lines = {line.get_label(): line for line in area.get_lines() if line.get_label() in content.looks}
    if panel not in ("rounds", "loss") or lines.keys() != content.looks.keys():
        return False
    area.autoscale_view()
    ends = {label: (line.get_xdata()[-1], line.get_ydata()[-1]) for label, line in lines.items()}
    if not all(math.isfinite(y) for _, y in ends.values()) or len({x for x, _ in ends.values()}) > 1:
        return False
    to_axes = area.transScale + area.transLimits
    heights = sorted(to_axes.transform(end)[1] for end in ends.values())
    if any(upper - lower < LINE for lower, upper in pairwise(heights)):
        return False
    for label, end in ends.items():
        colour = content.looks[label].colour
        area.annotate(label, end, (7, 0), textcoords="offset points", color=colour, va="center", annotation_clip=False)
    return True


def _note(content: Content, panels: Sequence[str]) -> str:
    """Return the note that says what a height, a line and a band stand for."""
    score = "Accuracy" if content.has_accuracy else "Loss"
    said = [f"{score}: mean over the clients, each on its own test samples."]
    if "clients" in panels:
        said.append(f"Share of clients: those with at most that {score.lower()}.")
    if content.seed_count > 1 and set(panels) & BANDED:
        said.append(f"Lines and bands: mean and standard deviation over {content.seed_count} seeds.")
    if "seconds" in panels:
        said.append("Time of training: of this machine; evaluations are not counted.")
    if {"virtual-seconds", "joules"} & set(panels):
        said.append("Modelled time and energy: counted work and bytes, nothing measured.")
    return " ".join(said)

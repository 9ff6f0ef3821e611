"""The picture of the tutorial: the accuracy of own models over the bytes of a run, a labelled point for each row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.fine_tuning.record import Row
from edgefl.study.picture_style import BLUE, DPI, GREY, ORANGE, PURPLE, THEMES, Theme, theme_of_file

MB = 1e6
GROUPS = {  # method -> colour and marker
    "fedavg-ft": (ORANGE, "s"), "fedspu": (BLUE, "o"), "pflego": (PURPLE, "*"), "random": (GREY, "x"),
}  # fmt: skip
PLACES: dict[str, tuple[int, int, str]] = {}  # name -> where its label stands from its point, in points
BESIDE = (7, -3, "left")


def draw(rows: Iterable[Row], path: Path) -> None:
    """Draw the rows of a record. A name that ends in -dark asks for the picture of a dark page."""
    import matplotlib

    theme = THEMES[theme_of_file(path)]
    with matplotlib.rc_context(theme.settings()):
        figure = figure_of(list(rows), theme)
        figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None)


def figure_of(rows: list[Row], theme: Theme) -> Any:
    """Return the figure. A row that sends nothing is a level line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    area = figure.subplots()
    for row in rows:
        height = 100 * row["own"]
        if not row["payload_bytes"]:
            area.axhline(height, color=theme.colours[GREY], linewidth=1, linestyle="--")
            area.annotate(row["name"], (1, height), (-4, 4), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right")  # fmt: skip
            continue
        colour, marker = GROUPS["random" if row["weights"] == "random" else row["method"]]
        at = row["payload_bytes"] / MB, height
        area.plot(*at, marker, color=theme.colours[colour], markersize=7)
        right, up, side = PLACES.get(row["name"], BESIDE)
        area.annotate(row["name"], at, (right, up), textcoords="offset points", ha=side)
    area.set_xscale("log")
    area.margins(x=0.22, y=0.12)
    area.set(xlabel="payload of the whole run, MB, both directions", ylabel="accuracy of own models, %")
    return figure

"""A table of a paper beside ours, for a terminal, and its picture, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HEADINGS = ("", "paper", "ours", "difference", "spread", "95 % t interval", "seeds", "")


def print_table(found: Mapping[str, Any]) -> None:
    """Print what `record` made."""
    minutes = sum(run["seconds"] for run in found["runs"].values()) / 60
    table = Table(title=f"{found['title']}\n{found['about']}\n{minutes:.1f} minutes of rounds", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "" else "right")
    for row in found["results"]:
        numbers = (_number(row[name], row["unit"]) for name in ("paper", "ours"))
        difference = "" if row["difference"] is None else f"{row['difference']:+.3g}"
        seeds = ", ".join(map(str, row["seeds"]))
        between = "" if row.get("interval") is None else "{:.3g} to {:.3g}".format(*row["interval"])
        table.add_row(row["label"], *numbers, difference, _number(row["spread"], ""), between, seeds, row["detail"])
    console = Console()
    console.width = max(console.width, 160)
    console.print(table)


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw the curves over rounds, with the panels in a row. Raises ImportError where there is no matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "edgefl", "svg.fonttype": "none"}  # equal curves give equal bytes
    from matplotlib import pyplot

    panels = found["curves"]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 3.5), sharey=True, squeeze=False)
    for area, (name, curves) in zip(axes[0], panels.items(), strict=True):
        for label, points in curves.items():
            area.plot([round for round, _ in points], [value for _, value in points], linewidth=1, label=label)
        area.set(title=name, xlabel="round")
        area.legend(fontsize="x-small")
        area.grid(alpha=0.3)
    axes[0][0].set_ylabel("accuracy")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g}{' ' + unit if unit else ''}"

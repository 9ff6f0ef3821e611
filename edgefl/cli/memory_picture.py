"""The pictures of `edgefl memory`: the accounts over p, and the memory in use over a step with plans.

The first follows FedSPU's Figure 5: a bar for each account, and a mark for the bytes that a learner held.

Resident sets are left out, because the interpreter alone takes several times the memory of training a small CNN.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgefl.cli.memory_table import FootprintRow, size
from edgefl.learning.memory import ACCOUNTS, TrainingConfiguration
from edgefl.learning.memory.plans import PlannedFootprint
from edgefl.study.picture_style import THEMES, Theme, theme_of_file

MEASURED = "learner"
WIDTH = 0.8  # share of the space of a group that its bars take
SIZE = 8.0, 4.2  # inches
SHOWN = 4  # most plans in a picture


def draw(path: Path, training: TrainingConfiguration, rows: Sequence[FootprintRow]) -> None:
    """Write the picture in the format of the file's ending. Full training, which Figure 5 calls "Others", comes last.

    Raises  ModuleNotFoundError without matplotlib, ValueError for an unknown ending
    """
    picture_of_memory(training, rows, THEMES[theme_of_file(path)]).savefig(path)


def picture_of_memory(training: TrainingConfiguration, rows: Sequence[FootprintRow], theme: Theme) -> Any:
    """Return a Figure of matplotlib with a group of bars for each share p, and a group for full training."""
    import matplotlib

    from edgefl.study.picture_figure import Picture

    ordered = [*rows[1:], rows[0]]
    accounts = [name for name in ACCOUNTS if name in rows[0].footprints]
    with matplotlib.rc_context(theme.settings()):
        figure = Picture(theme, figsize=SIZE)
        axes = figure.add_subplot()
        for i, name in enumerate(accounts):
            width = WIDTH / len(accounts)
            positions = [group - WIDTH / 2 + (i + 0.5) * width for group in range(len(ordered))]
            heights = [row.footprints[name].total / 1e6 for row in ordered]
            axes.bar(positions, heights, width * 0.92, color=theme.colours[i], label=f"account {name}")
        if MEASURED in rows[0].footprints:
            totals = [row.footprints[MEASURED].total / 1e6 for row in ordered]
            style: Any = {"color": theme.ink, "fillstyle": "none", "label": f"measured {MEASURED}"}
            axes.plot(range(len(ordered)), totals, "o", **style)
        axes.set_xticks(range(len(ordered)), [*(f"{row.keep:g}" for row in ordered[:-1]), "full training"])
        title = f"Memory of a training step of {training.model}, batch {training.batch}, method {training.method}"
        axes.set(xlabel="p, share of neurons that are trained", ylabel="memory, MB", title=title)
        figure.legend(loc="outside upper left", ncols=len(accounts) + 1)
    return figure


def draw_plans(path: Path, training: TrainingConfiguration, found: Sequence[PlannedFootprint]) -> None:
    """Write the picture of the plans of a step like `draw`."""
    picture_of_plans(training, found, THEMES[theme_of_file(path)]).savefig(path)


def picture_of_plans(training: TrainingConfiguration, found: Sequence[PlannedFootprint], theme: Theme) -> Any:
    """Return a Figure of matplotlib with the memory in use over a step, for a few of the plans."""
    import matplotlib

    from edgefl.study.picture_figure import Picture

    step = max(1, -(-(len(found) - 1) // (SHOWN - 1)))
    shown = [*found[: len(found) - 1 : step], found[-1]] if len(found) > 1 else list(found)
    with matplotlib.rc_context(theme.settings()):
        figure = Picture(theme, figsize=SIZE)
        axes = figure.add_subplot()
        for number, each in enumerate(shown):
            places = [at / max(1, len(each.live) - 1) for at in range(len(each.live))]
            label = f"{size(each.footprint.parts['arena'])}, work {each.work:.2f}"
            axes.plot(places, [count / 1e6 for count in each.live], color=theme.colours[number], label=label)
        title = f"Memory in use over a step of {training.model}, batch {training.batch}"
        axes.set(xlabel="calls of the step, as a share of all", ylabel="memory of the arena, MB", title=title)
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside upper left", ncols=len(shown))
    return figure

"""The accounts over p as a picture, after FedSPU's Figure 5: a bar per account, and a mark for what a learner held.

Resident sets are left out: the interpreter alone is several times a small CNN's training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgefl.cli.memory_table import FootprintRow
from edgefl.learning.memory import ACCOUNTS, TrainingConfiguration

MEASURED = "learner"
WIDTH = 0.8  # of the space of a group of bars


def draw(path: Path, training: TrainingConfiguration, rows: Sequence[FootprintRow]) -> None:
    """Writes the picture in the format of the file's ending. Full training, what Figure 5 calls "Others", comes last.

    Raises  ModuleNotFoundError without matplotlib; ValueError for an ending that it does not know.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ordered = [*rows[1:], rows[0]]
    accounts = [name for name in ACCOUNTS if name in rows[0].footprints]
    figure, axes = pyplot.subplots(figsize=(8, 4))
    for i, name in enumerate(accounts):
        width = WIDTH / len(accounts)
        positions = [group - WIDTH / 2 + (i + 0.5) * width for group in range(len(ordered))]
        axes.bar(positions, [row.footprints[name].total / 1e6 for row in ordered], width, label=f"account {name}")
    if MEASURED in rows[0].footprints:
        totals = [row.footprints[MEASURED].total / 1e6 for row in ordered]
        axes.plot(range(len(ordered)), totals, "o", color="black", fillstyle="none", label=f"measured {MEASURED}")
    axes.set_xticks(range(len(ordered)), [*(f"p = {row.keep:g}" for row in ordered[:-1]), "full"])
    axes.set(ylabel="MB", title=f"{training.model}, batch {training.batch}, {training.method}")
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)

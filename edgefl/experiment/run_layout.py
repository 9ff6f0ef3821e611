"""The parts of a simulation of several methods and seeds, and the places of the parts in the run's directory.

    RUN/METHOD/...             of one seed; colons of a method's label are plus signs
    RUN/seed-SEED/METHOD/...   of several

What is in such a directory is the journal's (simulation/journal.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefl.experiment.settings import Experiment
from edgefl.methods.method_label import folder

SEED = "seed-"


@dataclass(frozen=True)
class Trial:
    """One run of one method with one seed.

    path      its directory
    is_alone  whether it is the only seed
    """

    method: str
    seed: int
    rounds: int
    path: Path
    is_alone: bool

    def __str__(self) -> str:
        return self.method if self.is_alone else f"{self.method} seed {self.seed}"


def trials(experiment: Experiment, run: Path) -> list[Trial]:
    """All of a run, in the order in which they are run: seed by seed."""
    is_alone = experiment.seeds == 1
    return [
        Trial(method, one.seed, one.rounds, _of_seed(run, one.seed, is_alone) / folder(method), is_alone)
        for one in experiment.each_seed()
        for method in one.methods
    ]


def _of_seed(run: Path, seed: int, is_alone: bool) -> Path:
    return run if is_alone else run / f"{SEED}{seed}"


def run_of(trial: Path) -> tuple[Path, int | None]:
    """The run's directory, of the directory of one of its trials; and the seed, if it says one."""
    seed = trial.parent.name.removeprefix(SEED)
    return (trial.parent.parent, int(seed)) if seed.isdecimal() and trial.parent.name != seed else (trial.parent, None)

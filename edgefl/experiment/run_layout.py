"""The parts of a simulation of several methods and seeds, and the paths of the parts in the run's directory.

    RUN/METHOD/...             with one seed. Colons of a method's label are plus signs
    RUN/seed-SEED/METHOD/...   with several seeds

simulation/journal.py defines the files in such a directory.
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

    method    label of the method
    seed      seed of the run
    rounds    number of rounds
    path      directory of the run
    is_alone  whether the experiment has no other seed
    """

    method: str
    seed: int
    rounds: int
    path: Path
    is_alone: bool

    def __str__(self) -> str:
        return self.method if self.is_alone else f"{self.method} seed {self.seed}"


def trials(experiment: Experiment, run: Path) -> list[Trial]:
    """Return all trials of a run, in the order in which they are run: seed by seed."""
    is_alone = experiment.seeds == 1
    return [
        Trial(method, one.seed, one.rounds, _of_seed(run, one.seed, is_alone) / folder(method), is_alone)
        for one in experiment.each_seed()
        for method in one.methods
    ]


def _of_seed(run: Path, seed: int, is_alone: bool) -> Path:
    return run if is_alone else run / f"{SEED}{seed}"


def run_of(trial: Path) -> tuple[Path, int | None]:
    """Return the directory of the run that a trial's directory belongs to, and the seed if the trial's path has one."""
    seed = trial.parent.name.removeprefix(SEED)
    return (trial.parent.parent, int(seed)) if seed.isdecimal() and trial.parent.name != seed else (trial.parent, None)

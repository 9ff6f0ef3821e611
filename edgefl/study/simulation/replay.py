"""The replay of a served run without a network, with the same participants. The parameters must be equal bit for bit.

ARCHITECTURE, "Deadlines and identity of runs", describes the replay.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.model_file import kept
from edgefl.experiment.settings import Experiment
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.participation import RecordedParticipation
from edgefl.methods.task import State
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate


def replay(
    path: Path, folder: Path, data_dir: str | None, workers: int, eval_every: int | None = None
) -> tuple[int, str | None]:
    """Replay the run at `path`. Return its last closed round, and where its server's state differs from the replay's
    state, or None if the states are equal.

    folder      an empty directory for the replay's own files
    workers     number of clients that are trained at the same time
    eval_every  number of rounds from one evaluation to the next, whose scores metrics.jsonl of the folder has. The
                devices evaluated nothing for them. None: there is one evaluation, after the last closed round
    Raises      RunError if `path` holds no served run with a closed round, or its log does not fit its experiment,
                DataError if its data cannot be had.
    """
    if not run_history.is_served(path):
        raise RunError(f"{path} holds no served run; expected a run directory of `edgefl serve`")
    experiment = Experiment.of_run(path)
    progress = run_history.progress(path)
    if progress.state is None:
        raise RunError(f"{path} has no closed round; expected at least one")
    outcomes = {key: ruling and ruling.outcome for key, ruling in progress.rulings.items()}
    ((_, algorithm),) = experiment.algorithms().items()
    settings = replace(experiment.settings(workers), stop_after=progress.round)
    settings = replace(settings, rounds=max(settings.rounds, progress.round))  # the operator may have added rounds
    settings = replace(settings, eval_every=eval_every or progress.round, evaluate_first=False)
    journal = Journal(folder)
    try:
        participation = RecordedParticipation(
            progress.capacities,
            outcomes,
            progress.candidates,
            progress.losses,
            progress.throughputs,
            progress.closes,
        )
        federation = assemble(experiment, data_dir, kept(path, experiment.model))
        state = simulate(algorithm, federation, settings, journal, participation=participation)
    finally:
        journal.close()
    return progress.round, difference(progress.state, state)


def difference(ours: State, theirs: State) -> str | None:
    """Describe the first value in which a run's state differs from its replay's. Return None if all bits are equal."""
    for name in sorted(ours.values.keys() | theirs.values.keys()):
        if ours.values.get(name) != theirs.values.get(name):
            return f"{name} is {ours.values.get(name)} in the run and {theirs.values.get(name)} in the replay"
    mine, other = _contiguous(ours), _contiguous(theirs)
    if mine.keys() != other.keys():
        return f"{sorted(mine.keys() ^ other.keys())[0]} is only in one of the two states"
    for name, array in mine.items():
        differs = array.view(np.uint8) != other[name].view(np.uint8)
        if differs.any():
            at = np.unravel_index(int(differs.reshape(-1).argmax()) // array.itemsize, array.shape)
            where = f"{name}[{', '.join(map(str, at))}]"
            return f"{where} is {array[at]:.9g} in the run and {other[name][at]:.9g} in the replay"
    return None


def _contiguous(state: State) -> dict[str, Any]:
    return {name: np.ascontiguousarray(array) for name, array in state_file.flat(state.arrays).items()}

"""The replay of a run from its log, which has to end with the run's parameters. The clients' states are in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.methods.rounds.participation import RecordedParticipation
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.server import run_history
from edgefl.study.simulation.client_player import Job, Player, SimulationContext
from edgefl.study.simulation.engine import ClientStateStore
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference
from edgefl.study.simulation.round_loop import simulate
from tests.vopr.federation import Members
from tests.vopr.ledger import BrokenPromiseError


class MemoryJournal(Journal):
    """A journal that keeps the clients' states in memory. A replay is never resumed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._kept: dict[int, tuple[int, StoredClientState]] = {}

    def tag(self, client: int) -> int | None:
        return self._kept[client][0] if client in self._kept else None

    def load_client_state(self, client: int) -> StoredClientState | None:
        return self._kept[client][1] if client in self._kept else None

    def save_client_state(self, client: int, round: int, kept: StoredClientState) -> None:
        arrays = {name: _copies(params) for name, params in kept.arrays.items()}
        self._kept[client] = round, StoredClientState(_copies(kept.params), dict(kept.private), arrays)

    def forget_client_state(self, client: int) -> None:
        self._kept.pop(client, None)


class OneThread:
    """An engine that does one job after another in the calling thread, which takes less time than a pool of threads."""

    is_apart = False

    def __init__(self, cast: SimulationContext, shelf: ClientStateStore, workers: int) -> None:
        self._player, self._shelf = Player(cast, 1), shelf

    def do(self, jobs: Sequence[Job], round: int, common: Sequence[Any] = ()) -> list[Any]:
        return [self._one(job, round, common) for job in jobs]

    def _one(self, job: Job, round: int, common: Sequence[Any]) -> Any:
        kept = self._shelf.load_client_state(job.client) if job.needs_kept else None
        return job.play(self._player, kept, common, lambda new: self._shelf.save_client_state(job.client, round, new))

    def close(self) -> None:
        """Nothing is left to end."""


def check_replay(path: Path, members: Members) -> int:
    """Check that a replay of the run ends with the run's parameters. Return the number of its rounds."""
    progress = run_history.progress(path)
    if progress.state is None:
        return 0
    outcomes = {key: ruling and ruling.outcome for key, ruling in progress.rulings.items()}
    participation = RecordedParticipation(
        progress.capacities, outcomes, progress.candidates, progress.losses, progress.throughputs, progress.closes
    )
    experiment, federation = members.assembled.experiment, members.assembled.federation
    ((_, algorithm),) = members.assembled.algorithms.items()
    settings = replace(
        experiment.settings(1), stop_after=progress.round, eval_every=progress.round, checkpoint_every=progress.round
    )
    with tempfile.TemporaryDirectory(prefix="vopr-replay-") as folder:
        journal = MemoryJournal(Path(folder))
        try:
            state = simulate(algorithm, federation, settings, journal, participation=participation, engine=OneThread)
        finally:
            journal.close()
    if (where := difference(progress.state, state)) is not None:
        raise BrokenPromiseError(f"after round {progress.round} the replay differs: {where}")
    return progress.round


def _copies(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.array(array) for name, array in arrays.items()}

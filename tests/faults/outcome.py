"""The end of a served run, against a simulation of the same experiment: bit for bit, but for times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster import Cluster
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.state_reader import folder_of
from edgefl.experiment.assembly import assemble
from edgefl.experiment.settings import Experiment
from edgefl.methods.rounds.state_file import StoredClientState, sets
from edgefl.methods.task import State
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.replay import difference
from edgefl.study.simulation.round_loop import simulate


@dataclass(frozen=True)
class Truth:
    """The end of the simulation of an experiment with one method."""

    state: State
    metrics: list[dict[str, Any]]
    journal: Journal
    clients: int

    @staticmethod
    def of(experiment: Experiment, directory: Path, data_dir: str | None = None, workers: int = 1) -> Truth:
        """Simulate the experiment. Raises DataError if its data cannot be had."""
        ((_, algorithm),) = experiment.algorithms().items()
        journal = Journal(directory)
        federation = assemble(experiment, data_dir)
        state = simulate(algorithm, federation, experiment.settings(workers), journal)
        return Truth(
            state, [without_times(log_record) for log_record in journal.metrics()], journal, experiment.clients
        )

    def difference(self, cluster: Cluster) -> str | None:
        """Return the first thing in which a finished run differs, in words, or None if everything is bit-identical."""
        if found := self.server_difference(cluster.run):
            return found
        for client in range(self.clients):
            if found := self.personal_difference(cluster.state_of(client), client):
                return f"device {client}: {found}"
        return None

    def server_difference(self, run: Path) -> str | None:
        """Return the first difference in what the server of a run has, or None."""
        if found := difference(run_history.final_state(run), self.state):
            return f"server: {found}"
        for log_record, expected in zip(run_history.metrics(run), self.metrics, strict=False):
            if without_times(log_record) != expected:
                return f"metrics of round {expected['round']}"
        if len(run_history.metrics(run)) != len(self.metrics):
            return f"{len(run_history.metrics(run))} rounds; expected {len(self.metrics)}"
        return None

    def personal_difference(self, directory: Path, client: int) -> str | None:
        """Return the first difference in a device's own model and values, or None."""
        state, expected = DeviceState(folder_of(directory)), self.journal.load_client_state(client)
        try:
            if state.pending:
                return f"round {state.pending} is not acknowledged"
            found = state.personal()
        finally:
            state.close()
        if expected is None or found is None:
            return None if expected is None and not (found and found.flat()) else "has trained on one side only"
        return difference(_as_state(found), _as_state(expected))


def _as_state(kept: StoredClientState) -> State:
    return State(sets(kept.flat()), kept.private)


def without_times(log_record: dict[str, Any]) -> dict[str, Any]:
    """Return a log record without times. Every run of the experiment must have this record."""
    clients = [{name: value for name, value in each.items() if name != "seconds"} for each in log_record["clients"]]
    return {**log_record, "seconds": None, "clients": clients}

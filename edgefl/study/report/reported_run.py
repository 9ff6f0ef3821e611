"""The contents of a run that a report shows, read from the run's directory, also during the run. No HTML is made here.

A method with a seed that has no evaluated round yet has no figures. The seeds in which every method has figures are
compared. If there is no such seed, the methods with figures are compared in the first seed that has any figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from edgefl.errors import DataError, GraphError, RunError
from edgefl.experiment import tuned_values
from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.run_json import read_data_records, read_provenances
from edgefl.experiment.settings import Experiment
from edgefl.methods.sampling import tier
from edgefl.server import run_history
from edgefl.study import tuning
from edgefl.study.capacity_tiers import Tiers
from edgefl.study.grid_edges import grid_edges
from edgefl.study.simulation.committed_rounds import read_committed
from edgefl.study.simulation.journal import read_commit
from edgefl.study.summary import Summary, summarise


class SeededRun(Protocol):
    """A method with one seed."""

    method: str
    seed: int
    directory: Path

    @property
    def log_records(self) -> list[dict[str, Any]]: ...


class MethodRun(Protocol):
    """A method with its seeds."""

    @property
    def seeds(self) -> Mapping[int, Any]: ...


class SourceRun(Protocol):
    """A run that can be reported."""

    directory: Path
    experiment: Experiment
    is_served: bool
    methods: Mapping[str, Any]

    @property
    def tiers(self) -> Tiers: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class TrialState:
    """The progress of a method with one seed.

    rounds        number of closed rounds
    is_over       whether no round follows
    is_evaluated  whether a round has been evaluated
    """

    method: str
    seed: int
    rounds: int
    is_over: bool
    is_evaluated: bool


@dataclass(frozen=True)
class ReportedRun:
    """One run as values.

    name          name of the run in the report, a different name for each run
    states        progress of each method with each seed
    by_seed       the figures that are compared. {} if there are no figures yet
    tuning        sentences about tuned values
    edges         sentences about tuned values at the edge of their grid
    provenances   who made the run, in order of appearance
    devices       by client, the provenances of the devices of a served run
    data          records of the data that the run has trained on, the latest last
    notes         how the user's own data were understood
    socket_bytes  bytes through a server's sockets, None for a simulation
    lacking       why the model and the data of the run are not known. "" if they are known
    """

    name: str
    directory: Path
    experiment: Experiment
    is_served: bool
    states: tuple[TrialState, ...]
    by_seed: dict[int, list[Summary]]
    tuning: tuple[str, ...]
    edges: tuple[str, ...]
    provenances: tuple[str, ...]
    devices: dict[int, tuple[str, ...]]
    data: tuple[DataRecord, ...]
    notes: tuple[str, ...]
    socket_bytes: int | None
    lacking: str

    @property
    def is_over(self) -> bool:
        return all(state.is_over for state in self.states)

    @property
    def methods(self) -> list[str]:
        """Return the methods that have figures, in order."""
        return [each.method for each in next(iter(self.by_seed.values()), [])]

    def summaries_of(self, method: str) -> list[Summary]:
        """Return a summary for each seed."""
        return [each for of in self.by_seed.values() for each in of if each.method == method]


def reported(run: SourceRun, name: str) -> ReportedRun:
    """Read a run. Raises RunError if its directory is damaged."""
    tiers, lacking = _tiers(run)
    states, found = [], dict[int, dict[str, Summary]]()
    for method in run.methods.values():
        for one in method.seeds.values():
            log_records = one.log_records
            is_evaluated = any(each.get("evaluation") for each in log_records)
            states.append(TrialState(one.method, one.seed, len(log_records), _is_over(run, one), is_evaluated))
            if is_evaluated:
                values = _server_values(run, one)
                summary = summarise(one.method, log_records, tiers, values)
                found.setdefault(one.seed, {})[one.method] = _without_memory(summary) if lacking else summary
    edges = tuple(map(str, grid_edges(tuned_values.read(run.directory))))
    progress = run_history.progress(run.directory) if run.is_served else None
    traffic = run_history.traffic(run.directory) if run.is_served else []
    devices: dict[int, tuple[str, ...]] = {}
    for client, made in () if progress is None else progress.provenances:
        devices[client] = (*devices.get(client, ()), made)
    return ReportedRun(
        name=name,
        directory=run.directory,
        experiment=run.experiment,
        is_served=run.is_served,
        states=tuple(states),
        by_seed=_compared(list(run.methods), found),
        tuning=tuple(words for words in tuning.words(run.directory) if words not in edges),
        edges=edges,
        provenances=tuple(read_provenances(run.directory)),
        devices=devices,
        data=tuple(read_data_records(run.directory)),
        notes=run.notes,
        socket_bytes=traffic[-1].sent + traffic[-1].received if traffic else None,
        lacking=lacking,
    )


def _tiers(run: SourceRun) -> tuple[Tiers, str]:
    """Return the tiers and "". If the run's data are missing, return tiers from the settings, and the error."""
    try:
        return run.tiers, ""
    except (DataError, GraphError, RunError, OSError, ValueError) as error:
        experiment = run.experiment
        keep = [tier(experiment.keep, client, experiment.clients) for client in range(experiment.clients)]
        return Tiers(0, keep, dict.fromkeys(keep, 0)), str(error)


def _without_memory(summary: Summary) -> Summary:
    return replace(summary, tiers=[{**each, "memory_bytes": None} for each in summary.tiers])


def _is_over(run: SourceRun, one: SeededRun) -> bool:
    if run.is_served:
        return run_history.progress(one.directory).done
    commit = read_commit(one.directory)
    return commit.done and commit.round >= 1


def _server_values(run: SourceRun, one: SeededRun) -> dict[str, Any]:
    state = run_history.final_state(one.directory) if run.is_served else read_committed(one.directory).state
    return dict(state.values)


def _compared(methods: Sequence[str], found: Mapping[int, Mapping[str, Summary]]) -> dict[int, list[Summary]]:
    whole = {seed: [of[name] for name in methods] for seed, of in found.items() if len(of) == len(methods)}
    if whole or not found:
        return dict(sorted(whole.items()))
    seed, of = min(found.items())
    return {seed: [of[name] for name in methods if name in of]}


def names_of(directories: Sequence[Path]) -> list[str]:
    """Return a name for each run: the name of its directory, with parent directories if two runs have equal names."""
    parts = [directory.absolute().parts for directory in directories]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{'/'.join(each[-1:])} ({i})" for i, each in enumerate(parts, start=1)]

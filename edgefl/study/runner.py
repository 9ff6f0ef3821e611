"""The run of an experiment without a network: check everything before anything is written, then run method after
method.

experiment/settings.py has the settings, simulation/round_loop.py runs the rounds of a method, and summary.py has the
results.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from edgefl.experiment import run_toml
from edgefl.experiment.array_data import OwnData
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.assembly import assemble_experiment
from edgefl.experiment.asynchronous_settings import check_simulated
from edgefl.experiment.data_meaning import write_meaning
from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_extension import goes_on, let_grow
from edgefl.experiment.run_json import EXPERIMENT, check_data, open_run
from edgefl.experiment.run_layout import Trial, trials
from edgefl.experiment.settings import Experiment, Settings
from edgefl.kernels.memory import give_back
from edgefl.methods.task import State
from edgefl.models.graph import Model
from edgefl.study import tuning
from edgefl.study.capacity_tiers import Tiers, tiers_of
from edgefl.study.simulation.engine import MakeEngine, Threads
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.round_loop import simulate
from edgefl.study.summary import Summary, summarise

Engines = Callable[[], AbstractContextManager[MakeEngine]]  # context of the engine that trains clients


class Watcher(Protocol):
    """The protocol of an object that follows a run. `begin` is called once for each trial, after `at` rounds that were
    done before. `log_record` gets every round's line of metrics. `end` is called at the end, also after an error.
    """

    def begin(self, trial: Trial, at: int) -> None: ...

    def log_record(self, log_record: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


class NullWatcher:
    """The watcher of a run without a display or a callback."""

    def begin(self, trial: Trial, at: int) -> None: ...

    def log_record(self, log_record: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


def threads() -> AbstractContextManager[MakeEngine]:
    """Return a context with the engine that trains clients with threads of this process."""
    return nullcontext(Threads)


@dataclass(frozen=True)
class PreparedExperiment:
    """An experiment that has been checked and can be run. `prepare` makes it.

    assembled  the settings and what follows from them. Tuning may change the hyper-parameters of its methods
    settings   settings of the round loop
    own        the data that the settings name by their content. None: the settings name a data set or a file
    data_dir   the directory of the data set's files, if the user named one
    """

    assembled: AssembledExperiment
    settings: Settings
    own: OwnData | None
    data_dir: str | None

    @property
    def experiment(self) -> Experiment:
        """Return the settings of the experiment."""
        return self.assembled.experiment

    def tuned(self, experiment: Experiment) -> PreparedExperiment:
        """Return the experiment with the hyper-parameters of these settings, which differ in nothing else."""
        return replace(self, assembled=self.assembled.tuned(experiment))

    def tiers(self) -> Tiers:
        """Return the facts about model and clients that the summaries need."""
        federation = self.assembled.federation
        return tiers_of(self.experiment, federation.graph, federation.data.loss)


@dataclass(frozen=True)
class CompletedTrial:
    """A trial that is over, and the server's last state."""

    trial: Trial
    state: State

    def summary(self, tiers: Tiers) -> Summary:
        """Return the figures of the method, from the metrics of its rounds."""
        return summarise(self.trial.method, list(read_metrics(self.trial.path)), tiers, self.state.values)


def prepare(
    experiment: Experiment,
    model: Model | None = None,
    data_dir: str | None = None,
    workers: int = 1,
    max_empty_rounds: int | None = None,
    own: OwnData | None = None,
    check_wire: int = 0,
) -> PreparedExperiment:
    """Check all that can be checked before the first round. Nothing is written.

    model             model that the settings name by its content. None: the settings name a built-in model
    check_wire        number of clients of a round of whom one is carried by messages as well, as in Settings
    own               data that the settings name by their content. None: the settings name a data set or a file
    workers           number of clients that are trained at the same time
    max_empty_rounds  rounds in a row without an accepted reply, after which a run ends with an error. None: the default
    Raises            ValueError, DataError, GraphError or OSError for an experiment that cannot be run.
    """
    check_simulated(experiment)
    experiment = experiment.with_evaluation_rounds()
    settings = replace(experiment.settings(workers), check_wire=check_wire)
    if max_empty_rounds is not None:
        settings = replace(settings, max_empty_rounds=max_empty_rounds)
    assembled = assemble_experiment(experiment, data_dir, model, own)
    tuning.check(experiment, assembled.federation)
    return PreparedExperiment(assembled, settings, own, data_dir)


def claim(prepared: PreparedExperiment, directory: Path, accept_data: bool = False) -> str | None:
    """Make `directory` the directory of this run, or check that it already is. The run there may have had fewer rounds
    or seeds (run_extension.py). Write the file that repeats the run. Return a line about the run's data for the user,
    or None.

    accept_data  whether a run continues with other data than it has trained on
    Raises RunError if the directory is another run's, or its data have changed.
    """
    experiment, assembled, words = prepared.experiment, prepared.assembled, None
    record = DataRecord.of_federation(assembled.federation)
    if (directory / EXPERIMENT).exists():
        words = check_data(directory, record, accept_data) if goes_on(directory, experiment) else None
        let_grow(directory, experiment)
    open_run(directory, experiment.to_json(), assembled.model, prepared.own, record)
    run_toml.write(directory, experiment, prepared.data_dir)
    write_meaning(directory, assembled.federation.meaning)
    return words


def run(
    prepared: PreparedExperiment, directory: Path, watcher: Watcher | None = None, engines: Engines = threads
) -> list[CompletedTrial]:
    """Run every trial from its last checkpoint in `directory`, which has been claimed, in the order of `trials`.
    Options are tuned before the trials (tuning.py).

    Raises  RunError as `simulate` does, or if another process runs the directory.
    """
    watcher = watcher or NullWatcher()
    give_back()  # reading the data has freed megabytes
    with ExitStack() as until_end:
        until_end.callback(watcher.end)
        engine = until_end.enter_context(engines())
        prepared = _tuned(prepared, directory, watcher, engine)
        found = []
        for seed, of_seed in groupby(trials(prepared.experiment, directory), lambda trial: trial.seed):
            federation = prepared.assembled.federations[seed]
            found += [_one(prepared, trial, federation, watcher, engine) for trial in of_seed]
        return found


def _tuned(prepared: PreparedExperiment, directory: Path, watcher: Watcher, engine: MakeEngine) -> PreparedExperiment:
    """Return the experiment with the options that validation data choose, if tuning was asked for."""
    experiment, told = prepared.experiment, (watcher.begin, watcher.log_record)
    federation = prepared.assembled.federation
    return prepared.tuned(tuning.tune(experiment, federation, prepared.settings, directory, *told, engine))


def _one(
    prepared: PreparedExperiment, trial: Trial, federation: Federation, watcher: Watcher, engine: MakeEngine
) -> CompletedTrial:
    journal = Journal(trial.path)
    try:
        watcher.begin(trial, max(journal.committed.round, 0))
        algorithm = prepared.assembled.algorithms[trial.method]
        state = simulate(algorithm, federation, prepared.settings, journal, watcher.log_record, engine=engine)
    finally:
        journal.close()
    return CompletedTrial(trial, state)

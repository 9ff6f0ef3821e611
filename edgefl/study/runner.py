"""Running an experiment without a network: everything is checked before anything is written, then method after method.

Not its settings (experiment/settings.py), nor the rounds of a method (simulation/loop.py), nor what came of them
(summary.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from edgefl.algorithms import Algorithm
from edgefl.algorithms.base import State
from edgefl.experiment.assemble import assemble, check_begin, check_held_out
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_file import open_run
from edgefl.experiment.settings import Experiment, Settings
from edgefl.graph import Model
from edgefl.simulation.engine import MakeEngine, Threads
from edgefl.simulation.journal import Journal, read_metrics
from edgefl.simulation.loop import simulate
from edgefl.study.capacity import Tiers, tiers_of
from edgefl.study.summary import Summary, summarise

Engines = Callable[[], AbstractContextManager[MakeEngine]]  # what trains, for as long as the methods run


class Watcher(Protocol):
    """Is told how far a run has come: of each method once where it begins, which may be at a resumed round; then every
    round's line of metrics; at last, whatever happens, the end.
    """

    def begin(self, method: str, rounds: int, at: int) -> None: ...

    def line(self, line: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


class Unwatched:
    """For a run that nobody looks at."""

    def begin(self, method: str, rounds: int, at: int) -> None: ...

    def line(self, line: dict[str, Any]) -> None: ...

    def end(self) -> None: ...


def threads() -> AbstractContextManager[MakeEngine]:
    """Clients are trained by threads of this process."""
    return nullcontext(Threads)


@dataclass(frozen=True)
class Prepared:
    """An experiment that can be run as asked; see `prepare`."""

    experiment: Experiment
    algorithms: Mapping[str, Algorithm]
    settings: Settings
    federation: Federation
    model: Model | None

    def tiers(self) -> Tiers:
        """What its summaries must know of the model and the clients."""
        return tiers_of(self.experiment, self.federation.graph, self.federation.data.loss)


@dataclass(frozen=True)
class Finished:
    """A method that has been run: where its journal is, and the server's last state."""

    method: str
    path: Path
    state: State

    def summary(self, tiers: Tiers) -> Summary:
        """Its figures, from the lines of its rounds."""
        return summarise(self.method, list(read_metrics(self.path)), tiers, self.state.values)


def prepare(
    experiment: Experiment,
    model: Model | None = None,
    data_dir: str | None = None,
    workers: int = 1,
    max_empty_rounds: int | None = None,
) -> Prepared:
    """Checks all that can be checked before the first round, and writes nothing.

    model             that the settings name by its content; None: they name a built-in one
    max_empty_rounds  rounds in a row that accept nobody, after which a run ends with an error; None: the default
    Raises            ValueError, DataError, GraphError or OSError for what cannot be run.
    """
    algorithms = experiment.algorithms()
    settings = experiment.settings(workers)
    if max_empty_rounds is not None:
        settings = replace(settings, max_empty_rounds=max_empty_rounds)
    federation = assemble(experiment, data_dir, model)
    check_held_out(algorithms, federation)
    check_begin(algorithms, federation, experiment.rounds)
    return Prepared(experiment, algorithms, settings, federation, model)


def claim(prepared: Prepared, directory: Path) -> None:
    """Makes `directory` that of this run, or checks that it already is. Raises RunError if it is another's."""
    open_run(directory, prepared.experiment.to_json(), prepared.model)


def run(
    prepared: Prepared, directory: Path, watcher: Watcher | None = None, engines: Engines = threads
) -> list[Finished]:
    """Runs every method from its last checkpoint in `directory`, which has been claimed; in the order of methods.

    Raises  RunError as `simulate` does, or if another process runs the directory.
    """
    watcher = watcher or Unwatched()
    with ExitStack() as until_end:
        until_end.callback(watcher.end)
        engine = until_end.enter_context(engines())
        return [_one(prepared, name, directory / name, watcher, engine) for name in prepared.algorithms]


def _one(prepared: Prepared, name: str, path: Path, watcher: Watcher, engine: MakeEngine) -> Finished:
    journal = Journal(path)
    watcher.begin(name, prepared.settings.rounds, max(journal.committed.round, 0))
    algorithm = prepared.algorithms[name]
    state = simulate(algorithm, prepared.federation, prepared.settings, journal, watcher.line, engine=engine)
    journal.close()
    return Finished(name, path, state)

"""`edgefl.simulate`: compare federated methods on this machine in one call. run_request.py reads the request, and
runner.py runs it. run.py has the results.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from edgefl.experiment.array_data import KEPT
from edgefl.experiment.default_settings import new_directory
from edgefl.experiment.run_extension import evaluated_as_before
from edgefl.experiment.run_layout import Trial
from edgefl.experiment.settings import Experiment, processors
from edgefl.study import runner
from edgefl.study.callbacks import Callbacks, OnRound
from edgefl.study.run import Run
from edgefl.study.run_request import ResolvedExperiment, asked
from edgefl.study.runner import Engines, PreparedExperiment, Watcher, threads
from edgefl.study.tuning import rounds_in_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from edgefl.experiment.simulate_settings import SimulateSettings
    from edgefl.study.request_types import Data, Methods, Models


def simulate(
    method: Methods | None = None,
    *,
    model: Models | None = None,
    data: Data | None = None,
    directory: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    preset: str | None = None,
    workers: int | None = None,
    on_round: OnRound | Sequence[OnRound] = (),
    progress: bool | None = None,
    engine: Engines = threads,
    accept_data: bool = False,
    **settings: Unpack[SimulateSettings],
) -> Run:
    """Run the methods on data that are partitioned among clients, and return the run.

    method            name, label such as "fedspu:keep=1", Algorithm, or several. None: the default comparison
    model             torch module or edgefl Model, whose weights training starts from, FILE.safetensors, or the name of
                      a built-in model. None: the built-in model that fits the data
    data              (x, y) or (x, y, groups) of arrays or tensors, dict of arrays by the names of an npz file,
                      DataSet, name of a data set, or file. None: the packaged digits. With groups every group is a
                      client. Arrays are kept in the run
    directory         new directory, or the directory of this very run, which then goes on. None: new in edgefl-runs
    data_dir, preset  directory that is searched first for data files, and publication whose settings are taken
    workers           number of clients that are trained at the same time. None: the number of processors
    on_round          function or functions of a round's record, called when it closes (study/round_records.py)
    progress, engine  whether the progress is shown (None: on a terminal and in a notebook), and what trains clients
    accept_data       whether a run that goes on may train on data that have changed since it began
    settings          fields of Experiment (rounds, seeds, clients, lr, ...) and hyper-parameters of the methods
    Raises            ValueError, DataError, GraphError or RunError, before anything is written
    """
    callbacks = _callbacks(on_round)
    found = asked(method, model, data, data_dir, preset, cast(dict[str, Any], settings))
    path = new_directory(_stem(found.experiment.data)) if directory is None else Path(directory)
    prepared = _prepared(found, path, data_dir, workers)
    _warn(runner.claim(prepared, path, accept_data))
    told = [Callbacks(callbacks, prepared.experiment.to_json())] if callbacks else []
    runner.run(prepared, path, _Together([*told, *_shown(progress, prepared.experiment)]), engine)
    return Run(path, data_dir)


def _prepared(
    found: ResolvedExperiment, path: Path, data_dir: str | os.PathLike[str] | None, workers: int | None
) -> PreparedExperiment:
    """Return the experiment ready to run, with the evaluation rounds of the run at `path` if there is one.

    workers  clients trained at the same time. None: the number of processors
    """
    where = None if data_dir is None else os.fspath(data_dir)
    count = processors() if workers is None else workers
    experiment = evaluated_as_before(path, found.experiment)
    return runner.prepare(experiment, found.model, where, count, own=found.own)


def _warn(words: str | None) -> None:
    """Warn with the line of the program that called `simulate`."""
    if words is not None:
        warnings.warn(words, stacklevel=3)


def _stem(data: str) -> str:
    """Return the word for the data in the name of a new directory. `data` is the name of a data set, or its file."""
    return "own" if KEPT.fullmatch(data) else Path(data).stem


def _callbacks(given: Any) -> tuple[OnRound, ...]:
    found = (given,) if callable(given) or not isinstance(given, Iterable) else tuple(given)
    for each in found:
        if not callable(each):
            raise ValueError(f"on_round has {each!r}; expected a function, or a list of functions")
    return found


def _shown(progress: bool | None, experiment: Experiment) -> list[Watcher]:
    """Return the display of the progress, if there is to be one."""
    if progress is False:
        return []
    from edgefl.study.progress_display import Displayed, display  # the import of rich takes a while

    found = display(is_wanted=progress is True, in_all=rounds_in_all(experiment))
    return [] if found is None else [Displayed(found)]


class _Together:
    """Several watchers as one. All watchers are told the end, even if one of them fails."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def begin(self, trial: Trial, at: int) -> None:
        for each in self._watchers:
            each.begin(trial, at)

    def log_record(self, log_record: dict[str, Any]) -> None:
        for each in self._watchers:
            each.log_record(log_record)

    def end(self) -> None:
        with ExitStack() as until_end:
            for each in self._watchers:
                until_end.callback(each.end)

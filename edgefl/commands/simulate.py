"""`edgefl simulate`: run federated methods without a network, with live progress and a table of what was gained."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgefl.algorithms import Algorithm
from edgefl.algorithms.variant import folder
from edgefl.commands import doctor, progress, report
from edgefl.commands.capacity import tiers_of
from edgefl.commands.experiment_options import add_experiment, new_directory, requested, say_who_made
from edgefl.commands.refusals import Refusals
from edgefl.errors import DataError, RequestError, RunError
from edgefl.experiment.assemble import assemble, check_begin, check_held_out
from edgefl.experiment.federation import Federation
from edgefl.experiment.run_file import EXPERIMENT, open_run
from edgefl.experiment.settings import Experiment, Settings
from edgefl.rounds.closing import MAX_EMPTY_ROUNDS
from edgefl.server import history
from edgefl.simulation.engine import MakeEngine, Threads
from edgefl.simulation.journal import Journal, read_metrics
from edgefl.simulation.loop import simulate
from edgefl.simulation.replay import replay

EMPTY = "end with an error after so many rounds in a row that accept nobody"
ENGINES = ("threads", "ray")
RAY_ADDRESS = "with --engine ray: a cluster of `ray start`, as HOST:PORT or auto"
INTERRUPTED = "interrupted; --resume continues from the last checkpoint"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the experiment, and how it is run."""
    add_experiment(parser)
    how = parser.add_argument_group("how to run it")
    how.add_argument("--data-dir", help="directory of the data set's files")
    how.add_argument("--run-dir", type=Path, help="directory of the run; default: a new one in edgefl-runs")
    how.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in this directory")
    how.add_argument("--replay", type=Path, metavar="RUN", help="repeat a served run and compare its parameters")
    how.add_argument("--checkpoint-every", type=int, metavar="ROUNDS", default=argparse.SUPPRESS)
    how.add_argument(
        "--max-empty-rounds", type=int, metavar="K", help=f"{EMPTY}; default: {MAX_EMPTY_ROUNDS}", default=None
    )
    how.add_argument("--workers", type=int, help="clients trained at the same time; default: the number of processors")
    how.add_argument(
        "--engine", choices=ENGINES, help="what trains: threads of this process (default), or actors of a Ray cluster"
    )
    how.add_argument("--ray-address", metavar="ADDRESS", help=f"{RAY_ADDRESS}; default: one of its own on this machine")
    how.add_argument("--plot", type=Path, metavar="FILE", help="draw accuracy over rounds and bytes (needs matplotlib)")
    how.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Checks the request, runs every method, prints the report; or repeats a served run."""
    if options.replay is not None:
        return _replay(vars(options))
    request = _prepare(vars(options))
    print(f"run directory: {request.run}", file=sys.stderr)
    say_who_made(request.run)
    summaries = _run(request)
    if request.as_json:
        found = {"run": str(request.run), "experiment": request.experiment.to_json(), **report.to_json(summaries)}
        print(json.dumps(found))
    else:
        report.print_tables(report.console(), summaries)
    if request.plot is not None:
        sys.stdout.flush()
        report.plot(request.plot, summaries)  # last: what was computed is printed whatever becomes of the picture
    return 0


def _replay(options: dict[str, Any]) -> int:
    """Says whether the replay of a served run ends with its parameters; exit code 1 if not."""
    path, workers = options.pop("replay"), options.pop("workers")
    data_dir = options.pop("data_dir")
    for name, value in options.items():
        if value:
            raise RequestError(f"--replay {path} with {name}={value}; expected only --data-dir and --workers beside it")
    if history.is_served(path):
        say_who_made(path, (made for _, made in history.progress(path).makers))
    with tempfile.TemporaryDirectory(prefix="edgefl-replay-") as folder:
        round, found = replay(path, Path(folder), data_dir, workers or doctor.processors())
    if found is None:
        print(f"identical after round {round}: the replay has the same server state, bit for bit")
        return 0
    print(f"different after round {round}: {found}")
    return 1


@dataclass(frozen=True)
class _Request:
    """A simulation that can be run as asked."""

    experiment: Experiment
    algorithms: dict[str, Algorithm]
    settings: Settings
    federation: Federation
    run: Path
    plot: Path | None
    as_json: bool
    engines: Callable[[], AbstractContextManager[MakeEngine]]


def _prepare(options: dict[str, Any]) -> _Request:
    """Checks everything that was asked before anything is written. Raises RequestError."""
    try:
        return _request(options)
    except (ValueError, DataError, RunError, OSError) as error:
        raise RequestError(str(error)) from error


def _request(options: dict[str, Any]) -> _Request:
    names = (
        "run_dir",
        "resume",
        "replay",
        "workers",
        "plot",
        "data_dir",
        "json",
        "max_empty_rounds",
        "engine",
        "ray_address",
    )
    how = {name: options.pop(name, None) for name in names}
    if how["run_dir"] and how["resume"]:
        raise ValueError(f"--run-dir {how['run_dir']} with --resume {how['resume']}; expected one of them")
    if how["plot"] is not None:
        report.check_picture(how["plot"])
    if how["ray_address"] is not None and how["engine"] != "ray":
        raise ValueError(f"--ray-address {how['ray_address']} without --engine ray; expected both")
    if how["engine"] == "ray" and find_spec("ray") is None:
        raise ValueError("--engine ray without the package ray; expected it here and on every node: pip install ray")
    experiment, model = requested(options, how["resume"])
    algorithms = experiment.algorithms()
    settings = experiment.settings(doctor.processors() if how["workers"] is None else how["workers"])
    if how["max_empty_rounds"] is not None:
        settings = replace(settings, max_empty_rounds=how["max_empty_rounds"])
    federation = assemble(experiment, how["data_dir"], model)
    check_held_out(algorithms, federation)
    check_begin(algorithms, federation, experiment.rounds)
    run = how["resume"] or how["run_dir"] or new_directory(Path(experiment.data).stem)
    if how["resume"] is None and (run / EXPERIMENT).exists():
        raise RunError(f"{run} already holds a run; expected a new directory, or --resume {run}")
    open_run(run, experiment.to_json(), model)
    engines = partial(_cluster, how["ray_address"], settings.workers) if how["engine"] == "ray" else _threads
    return _Request(experiment, algorithms, settings, federation, run, how["plot"], bool(how["json"]), engines)


def _threads() -> AbstractContextManager[MakeEngine]:
    return nullcontext(Threads)


def _cluster(address: str | None, workers: int) -> AbstractContextManager[MakeEngine]:
    from edgefl.integrations.ray import cluster  # takes a second

    return cluster(address, workers)


def _run(request: _Request) -> list[report.Summary]:
    tiers = tiers_of(request.experiment, request.federation.graph, request.federation.data.loss)
    display = progress.watch()
    summaries = []
    with ExitStack() as until_end:
        until_end.callback(display.end)
        engine = until_end.enter_context(request.engines())
        for name, algorithm in request.algorithms.items():
            journal = Journal(request.run / folder(name))
            display.begin(name, request.settings.rounds, max(journal.committed.round, 0))
            refusals = Refusals(lambda line: print(line, file=sys.stderr))

            def watch(line: dict[str, Any], refusals: Refusals = refusals) -> None:
                refusals.closed(line)
                display.line(line)

            state = simulate(algorithm, request.federation, request.settings, journal, watch, engine=engine)
            journal.close()
            summaries.append(report.summarise(name, list(read_metrics(journal.path)), tiers, state.values))
    return summaries

"""`edgefl simulate` runs federated methods without a network, with live progress and tables of the results."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgefl.cli.access_error import sentence
from edgefl.cli.backend_option import add_backend
from edgefl.cli.budget_arguments import HELP as BUDGET_HELP
from edgefl.cli.budget_arguments import budget, share
from edgefl.cli.experiment_arguments import DATA_DIR, add_experiment, add_setting
from edgefl.cli.experiment_options import requested, say_who_made
from edgefl.cli.refusal_log import Refusals
from edgefl.cli.working import note, run_display, working
from edgefl.errors import DataError, RequestError, RunError
from edgefl.experiment import run_toml, tuned_values
from edgefl.experiment.array_data import own_file
from edgefl.experiment.default_settings import new_directory
from edgefl.experiment.run_data import own_of_run
from edgefl.experiment.run_json import EXPERIMENT
from edgefl.experiment.run_layout import Trial
from edgefl.experiment.settings import Experiment, processors
from edgefl.experiment.user_methods import label
from edgefl.methods.method_label import labels_in
from edgefl.methods.rounds.round_closing import MAX_EMPTY_ROUNDS
from edgefl.protocol.wire.printable import printable
from edgefl.server import run_history
from edgefl.study import progress_display, runner, tuning
from edgefl.study.comparison import compare
from edgefl.study.flat_rows import method_rows
from edgefl.study.picture import check_picture, plot_seeds
from edgefl.study.result_text import to_json
from edgefl.study.simulation.engine import MakeEngine
from edgefl.study.simulation.replay import replay
from edgefl.study.summary import Summary
from edgefl.study.table_file import SUFFIXES, check_table_file, write_table
from edgefl.study.tables import console, print_page, result_page

TARGET = (
    "accuracy above 0 and at most 1. The tables say what each method had spent when the method first reached the "
    "accuracy. (default: the lowest accuracy that a method ends with, if --devices is given)"
)
EMPTY = "number of rounds in a row without an accepted reply after which the run ends with an error"
CHECK_WIRE = (
    "number of clients of a round of whom one is also given its plan and asked for its reply by messages, which must "
    "carry what is passed on without messages. With 0, only the first client of a round is checked so."
)
SETTINGS = "file of settings, like the run.toml that every run writes. An option goes before a setting of the file."
RESUME = (
    "directory of the run to continue. The option --rounds may then be larger than before, and so may --seeds if the "
    "run has at least two seeds."
)
ACCEPT_DATA = (
    "continue although the data have changed since the run began. The option needs --resume. The file run.json keeps "
    "both digests."
)
TABLE = f"file for the tables. Its suffix names the format: {', '.join(SUFFIXES)}"
ENGINES = ("threads", "ray")
RAY_ADDRESS = "address of a cluster of `ray start`, as HOST:PORT or auto. The option needs --engine ray."
INTERRUPTED = "interrupted; --resume continues from the last checkpoint"
HOW = (  # options that say how to run an experiment, whereas every other option is a setting of it
    "settings",
    "run_dir",
    "resume",
    "accept_data",
    "replay",
    "workers",
    "plot",
    "table",
    "budget",
    "target_accuracy",
    "data_dir",
    "json",
    "max_empty_rounds",
    "check_wire",
    "engine",
    "ray_address",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the experiment, and the options that say how it is run."""
    parser.add_argument("settings", nargs="?", type=Path, metavar="FILE.toml", help=SETTINGS)
    add_experiment(parser)
    _add_run(parser.add_argument_group("the run and its directory"))
    _add_results(parser.add_argument_group("what is shown and written"))
    _add_machines(parser.add_argument_group("machines, real and modelled"))


def _add_run(how: argparse._ArgumentGroup) -> None:
    """Add the directory of the run, and the run that goes on."""
    add_setting(how, "seeds")
    how.add_argument("--run-dir", type=Path, metavar="DIR", help="directory of the run (default: new in edgefl-runs)")
    how.add_argument("--resume", type=Path, metavar="RUN", help=RESUME)
    how.add_argument("--accept-data", action="store_true", help=ACCEPT_DATA)
    how.add_argument("--data-dir", metavar="DIR", help=DATA_DIR)
    replayed = "directory of a served run. The run is repeated here, and the parameters are compared bit by bit."
    how.add_argument("--replay", type=Path, metavar="RUN", help=replayed)
    add_setting(how, "checkpoint_every")
    how.add_argument(
        "--max-empty-rounds", type=int, metavar="K", help=f"{EMPTY} (default: {MAX_EMPTY_ROUNDS})", default=None
    )
    how.add_argument("--check-wire", type=int, default=0, metavar="N", help=f"{CHECK_WIRE} (default: %(default)s)")


def _add_results(shown: argparse._ArgumentGroup) -> None:
    """Add the result as text, JSON, a picture or a table, and the budgets at which methods are compared."""
    picture = "file for a picture of accuracy over rounds and bytes: .png, .svg or .pdf. The picture needs matplotlib."
    shown.add_argument("--plot", type=Path, metavar="FILE", help=picture)
    shown.add_argument("--table", type=Path, metavar="FILE", help=TABLE)
    shown.add_argument("--budget", action="append", type=budget, metavar="NAME=AMOUNT", help=BUDGET_HELP)
    shown.add_argument("--target-accuracy", type=share, metavar="SHARE", help=TARGET)


def _add_machines(machines: argparse._ArgumentGroup) -> None:
    """Add the workers that train, and the modelled devices."""
    add_setting(machines, "devices")
    add_setting(machines, "deadline_s")
    together = "number of clients that train at once (default: the number of processors)"
    machines.add_argument("--workers", type=int, metavar="N", help=together)
    engine = "workers that train: threads of this process, or actors of a Ray cluster (default: threads)"
    machines.add_argument("--engine", choices=ENGINES, help=engine)
    own = f"{RAY_ADDRESS} (default: a cluster that is started on this machine)"
    machines.add_argument("--ray-address", metavar="ADDRESS", help=own)
    add_backend(machines)


def run(options: argparse.Namespace) -> int:
    """Check the request, run every method and print the report, or repeat a served run."""
    if options.replay is not None:
        return _replay(vars(options))
    request = _prepare(vars(options))
    note(f"run directory: {request.run}")
    say_who_made(request.run)
    shown = _Shown(run_display(in_all=tuning.rounds_in_all(request.study.experiment)))
    done = runner.run(request.study, request.run, shown, request.engines)
    tiers = request.study.tuned(Experiment.of_run(request.run)).tiers()  # tuning has changed the settings
    by_seed: dict[int, list[Summary]] = {}
    for each in done:
        by_seed.setdefault(each.trial.seed, []).append(each.summary(tiers))
    if request.as_json:
        asked = {"run": str(request.run), "experiment": request.study.experiment.to_json()}
        found = to_json(by_seed, request.budgets, request.target)
        print(json.dumps({**asked, **found, **tuning.found_in(request.run)}))
    _show(request, by_seed)
    return 0


def _show(request: _SimulationRequest, by_seed: dict[int, list[Summary]]) -> None:
    """Print the tables unless JSON was asked for, then write the files. A file that cannot be written does not cost the
    tables.
    """
    page = result_page(by_seed, request.budgets, request.target, tuning.words(request.run))
    if not request.as_json:
        print_page(console(), page)
    sys.stdout.flush()
    if request.table is not None:
        tuned = {label: dict(chosen) for label, chosen in tuned_values.choices(request.run)}
        rows = method_rows(compare(by_seed, request.budgets), tuned)
        write_table(request.table, page, rows, str(request.run))
    if request.plot is not None:
        plot_seeds(request.plot, by_seed)


def _replay(options: dict[str, Any]) -> int:
    """Say whether the replay of a served run ends with its parameters. Return 1 if the parameters differ."""
    path, workers, data_dir, as_json = (options.pop(name) for name in ("replay", "workers", "data_dir", "json"))
    for name, value in options.items():
        if value:
            raise RequestError(
                f"--replay {path} with {name}={value}; expected only --data-dir, --workers and --json beside it"
            )
    if not run_history.is_served(path):
        raise RequestError(f"{path} holds no served run; expected a run directory of `edgefl serve`")
    say_who_made(path, (made for _, made in run_history.progress(path).provenances))
    with tempfile.TemporaryDirectory(prefix="edgefl-replay-") as folder, working(f"repeating the rounds of {path}"):
        round, found = replay(path, Path(folder), data_dir, workers or processors())
    if as_json:
        print(json.dumps({"run": str(path), "round": round, "identical": found is None, "difference": found}))
        return int(found is not None)
    if found is None:
        print(f"identical after round {round}: the replay has the same server state, bit for bit")
        return 0
    print(f"different after round {round}: {found}")
    return 1


@dataclass(frozen=True)
class _SimulationRequest:
    """A simulation that can be run as asked, and the results that are wanted."""

    study: runner.PreparedExperiment
    run: Path
    plot: Path | None
    table: Path | None
    as_json: bool
    budgets: dict[str, float]
    target: float | None
    engines: runner.Engines


def _prepare(options: dict[str, Any]) -> _SimulationRequest:
    """Check everything that was asked before anything is written. Raises RequestError."""
    try:
        return _request(options)
    except (ValueError, DataError, RunError, OSError) as error:
        raise RequestError(sentence(error)) from error


def _request(options: dict[str, Any]) -> _SimulationRequest:
    how = {name: options.pop(name, None) for name in HOW}
    _check(how)
    given = options if how["settings"] is None else _beside(run_toml.read(how["settings"]), options)
    how["data_dir"] = given.pop("data_dir", None) if how["data_dir"] is None else how["data_dir"]
    own = own_file(given.get("data", ""), given.get("axes", ""))
    given |= {} if own is None else {"data": own.name}
    experiment, model = requested(given, how["resume"], may_grow=True, data_dir=how["data_dir"])
    own = own or own_of_run(how["resume"], experiment)
    workers = processors() if how["workers"] is None else how["workers"]
    with working("reading and partitioning the data"):
        study = runner.prepare(
            experiment, model, how["data_dir"], workers, how["max_empty_rounds"], own, how["check_wire"]
        )
    run = how["resume"] or how["run_dir"] or new_directory(Path(experiment.data).stem)
    if how["resume"] is None and (run / EXPERIMENT).exists():
        raise RunError(f"{run} already holds a run; expected a new directory, or --resume {run}")
    if words := runner.claim(study, run, bool(how["accept_data"])):
        print(words, file=sys.stderr)
    engines = partial(_cluster, how["ray_address"], workers) if how["engine"] == "ray" else runner.threads
    return _SimulationRequest(
        study,
        run,
        how["plot"],
        how["table"],
        bool(how["json"]),
        dict(how["budget"] or ()),
        how["target_accuracy"],
        engines,
    )


def _check(how: Mapping[str, Any]) -> None:
    """Raise ValueError where options on how to run do not go together, or need a package that is not installed."""
    if how["run_dir"] and how["resume"]:
        raise ValueError(f"--run-dir {how['run_dir']} with --resume {how['resume']}; expected one of them")
    if how["accept_data"] and not how["resume"]:
        raise ValueError("--accept-data without --resume; expected both, as only a run that goes on has data of before")
    if how["plot"] is not None:
        check_picture(how["plot"])
    if how["table"] is not None:
        check_table_file(how["table"])
    if how["ray_address"] is not None and how["engine"] != "ray":
        raise ValueError(f"--ray-address {how['ray_address']} without --engine ray; expected both")
    if how["engine"] == "ray" and find_spec("ray") is None:
        raise ValueError("--engine ray without the package ray; expected it here and on every node: pip install ray")


def _beside(file: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file with the options that override them. If other methods are chosen, settings of the
    file that these methods lack are left out.
    """
    for name in run_toml.unused(map(label, labels_in(options["method"]))) if "method" in options else ():
        file.pop(name, None)
    kept = [text for text in file.pop("set", []) if text.partition("=")[0] not in options]
    both = {**file, **options, "set": [*kept, *options.get("set", [])]}
    return {name: value for name, value in both.items() if name != "data_dir" or value is not None}


def _cluster(address: str | None, workers: int) -> AbstractContextManager[MakeEngine]:
    from edgefl.integrations.ray import cluster  # takes a second

    return cluster(address, workers)


class _Shown(progress_display.Displayed):
    """A display of the progress that also prints the replies that were refused, excluded or clipped."""

    def begin(self, trial: Trial, at: int) -> None:
        super().begin(trial, at)
        self._refusals = Refusals(lambda line: print(printable(line), file=sys.stderr))

    def log_record(self, log_record: dict[str, Any]) -> None:
        self._refusals.closed(log_record)
        super().log_record(log_record)

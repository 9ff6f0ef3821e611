"""The command line: `edgefl simulate` and the table of the other commands. Options in, exit code out.

Exit codes: 0 done, 1 the run failed, 2 the request was wrong. Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from edgefl import progress, report
from edgefl.algorithms import METHODS, Algorithm, FedSPU, parse
from edgefl.assemble import assemble, check_held_out
from edgefl.commands import doctor
from edgefl.commands.base import Command, RequestError
from edgefl.doctor import processors
from edgefl.errors import DataError, EdgeflError, RunError
from edgefl.experiment import SHARED, Experiment, defaults, preset
from edgefl.federation import Federation, training_bytes
from edgefl.models import NAMES
from edgefl.runs import EXPERIMENT, Journal, open_run, read_experiment
from edgefl.simulate import Settings, simulate
from edgefl.spec import ModelSpec

RUNS = "edgefl-runs"
RESUMABLE = "; --resume continues from the last checkpoint"
COMMANDS: dict[str, Command] = {"doctor": doctor.COMMAND}  # beside `simulate`, which is in this file


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. A mistake of the user ends as one sentence on stderr, never as a traceback."""
    options = vars(parser().parse_args(arguments))
    command = options.pop("command")
    try:
        if command in COMMANDS:
            return COMMANDS[command].run(options)
        return _simulate(_prepare(options))
    except RequestError as error:
        return _fail(command, error, 2)
    except (EdgeflError, OSError) as error:
        return _fail(command, error, 1)
    except KeyboardInterrupt:
        return _fail(command, f"interrupted{RESUMABLE if command == 'simulate' else ''}", 130)


def _fail(command: str, why: object, code: int) -> int:
    print(f"edgefl {command}: {why}", file=sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    """The options. An option that is not given is absent from the result, so that a resumed run can tell."""
    top = argparse.ArgumentParser(prog="edgefl", description="Personalised federated learning on devices.")
    commands = top.add_subparsers(dest="command", required=True)
    for name, other in COMMANDS.items():
        other.add_arguments(commands.add_parser(name, help=other.help))
    run = commands.add_parser(
        "simulate", help="run federated methods without a network", argument_default=argparse.SUPPRESS
    )
    _add_what(run)
    _add_training(run)
    _add_how(run)
    return top


def _add_what(run: argparse.ArgumentParser) -> None:
    what = run.add_argument_group("what to run")
    what.add_argument("--method", action="append", help=f"of {', '.join(METHODS)}, separated by commas; default: all")
    what.add_argument("--data", help="data set; default: digits, which comes with the package")
    what.add_argument("--data-dir", help="where the data set's files lie")
    what.add_argument("--model", help=f"of {', '.join(NAMES)}; default: by the shape of the data")
    what.add_argument(
        "--partition", help=f"iid | dirichlet:ALPHA | dirichlet-classes:ALPHA | group; {_default('partition')}"
    )
    what.add_argument("--clients", type=int, help=_default("clients"))
    what.add_argument("--pool", action="store_true", help="merge the published test part into the clients' data")
    what.add_argument("--seed", type=int, help=_default("seed"))
    what.add_argument(
        "--preset", choices=("paper", "code"), help="settings of the FedSPU paper, or of its released code"
    )


def _add_training(run: argparse.ArgumentParser) -> None:
    training = run.add_argument_group("training")
    training.add_argument("--rounds", type=int, help=_default("rounds"))
    training.add_argument("--per-round", type=int, help=f"clients selected in a round; {_default('per_round')}")
    training.add_argument("--keep", type=_shares, help="share of active neurons of each capacity tier, e.g. .2,.6,1")
    training.add_argument("--epochs", type=int, help=_default("epochs"))
    training.add_argument("--batch", type=int, help=_default("batch"))
    training.add_argument("--lr", type=float, help=_default("lr"))
    training.add_argument("--validation-share", type=float, metavar="SHARE", help="of a client's training samples")
    training.add_argument("--values", choices=("float32", "float16"), help="number format of the payloads")
    training.add_argument("--set", action="append", metavar="NAME=VALUE", help="any other hyper-parameter of a method")


def _default(name: str) -> str:
    """The default of a setting in words, for the digits and for other data where they differ."""
    ours, other = getattr(Experiment, name), defaults("").get(name)
    return f"default: {ours}" if other in (None, ours) else f"default: {ours} for digits, else {other}"


def _add_how(run: argparse.ArgumentParser) -> None:
    how = run.add_argument_group("how to run it")
    how.add_argument("--run-dir", type=Path, help=f"directory of the run; default: a new one in {RUNS}")
    how.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in this directory")
    how.add_argument("--eval-every", type=int, metavar="ROUNDS")
    how.add_argument("--checkpoint-every", type=int, metavar="ROUNDS")
    how.add_argument("--workers", type=int, help="clients trained at the same time; default: the number of processors")
    how.add_argument("--plot", type=Path, metavar="FILE", help="draw accuracy over rounds and bytes (needs matplotlib)")
    how.add_argument("--json", action="store_true", help="print the result as one JSON object")


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected numbers separated by commas") from None


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


def _prepare(options: dict[str, Any]) -> _Request:
    """Checks everything that was asked before anything is written. Raises RequestError."""
    try:
        return _request(options)
    except (ValueError, DataError, RunError, OSError) as error:
        raise RequestError(error) from error


def _request(options: dict[str, Any]) -> _Request:
    how = {name: options.pop(name, None) for name in ("run_dir", "resume", "workers", "plot", "data_dir", "json")}
    if how["run_dir"] and how["resume"]:
        raise ValueError(f"--run-dir {how['run_dir']} with --resume {how['resume']}; expected one of them")
    if how["plot"] is not None:
        report.require_matplotlib()
    experiment = _experiment(options, how["resume"])
    algorithms = experiment.algorithms()
    settings = experiment.settings(processors() if how["workers"] is None else how["workers"])
    federation = assemble(experiment, how["data_dir"])
    check_held_out(algorithms, federation)
    run = how["resume"] or how["run_dir"] or _new_directory(experiment)
    if how["resume"] is None and (run / EXPERIMENT).exists():
        raise RunError(f"{run} already holds a run; expected a new directory, or --resume {run}")
    open_run(run, experiment.to_json())
    return _Request(experiment, algorithms, settings, federation, run, how["plot"], bool(how["json"]))


def _simulate(request: _Request) -> int:
    print(f"run directory: {request.run}", file=sys.stderr)
    summaries = _run(request)
    if request.plot is not None:
        report.plot(request.plot, summaries)
    if request.as_json:
        found = {"run": str(request.run), "experiment": request.experiment.to_json(), **report.to_json(summaries)}
        print(json.dumps(found))
    else:
        report.print_tables(_console(), summaries)
    return 0


def _console() -> Console:
    """The terminal, or 100 columns where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=100)


def _experiment(options: dict[str, Any], resume: Path | None) -> Experiment:
    """The experiment that was asked for, or the one of the resumed run if the options given agree with it."""
    if resume is None:
        given = _given(options, Experiment())
        return Experiment(**{**defaults(given.get("data", Experiment.data)), **given})
    stored = Experiment.from_json(read_experiment(resume))
    for name, value in _given(options, stored).items():
        if value != getattr(stored, name):
            raise RunError(
                f"{resume} was run with {name}={getattr(stored, name)}, not {value}; expected the same settings"
            )
    return stored


def _given(options: dict[str, Any], base: Experiment) -> dict[str, Any]:
    """The options that were given, as fields of Experiment; `base` says which methods and data there are otherwise."""
    given = dict(options)
    if "method" in given:
        given["methods"] = tuple(name for text in given.pop("method") for name in text.split(",") if name)
    methods = list(given.get("methods", base.methods))
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"method={name}; expected one of {', '.join(METHODS)}")
    if "preset" in given:
        given = {**preset(given.pop("preset"), given.get("data", base.data)), **given}
    chosen = dict(given.get("options", base.options))
    for text in given.pop("set", ()):
        name, value = _assignment(text)
        if name in SHARED:
            given[name] = parse(methods, name, value)
        else:
            chosen[name] = parse(methods, name, value)
    given["options"] = tuple(sorted(chosen.items()))
    return given


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}; expected NAME=VALUE")
    return name, value


def _new_directory(experiment: Experiment) -> Path:
    numbers = [int(path.name.split("-")[0]) for path in Path(RUNS).glob("[0-9][0-9][0-9]-*")]
    return Path(RUNS) / f"{max(numbers, default=0) + 1:03d}-{Path(experiment.data).stem}"


def _run(request: _Request) -> list[report.Summary]:
    tiers = _tiers(request.experiment, request.federation)
    display = progress.watch()
    summaries = []
    try:
        for name, algorithm in request.algorithms.items():
            journal = Journal(request.run / name)
            display.begin(name, request.settings.rounds, max(journal.committed.round, 0))
            state = simulate(algorithm, request.federation, request.settings, journal, display.line)
            journal.close()
            summaries.append(report.summarise(name, journal.path, tiers, state.values))
    finally:
        display.end()
    return summaries


def _tiers(experiment: Experiment, federation: Federation) -> report.Tiers:
    spec, method = ModelSpec.of(federation.graph), FedSPU(keep=experiment.keep)
    keep = [method.tier(client, experiment.clients) for client in range(experiment.clients)]
    memory = {p: training_bytes(federation.graph, experiment.batch, p, experiment.seed) for p in set(keep)}
    return report.Tiers(sum(math.prod(param.shape) for param in spec.params.values()), keep, memory)

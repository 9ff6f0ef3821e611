"""The command line: `edgefl simulate` and `edgefl doctor`. Options in, exit code out; the work is done elsewhere.

Exit codes: 0 done, 1 the run failed, 2 the request was wrong. Results go to stdout, progress and errors to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from edgefl import doctor, progress, report
from edgefl.algorithms import METHODS, FedSPU, parse
from edgefl.assemble import assemble
from edgefl.errors import DataError, EdgeflError, RunError
from edgefl.experiment import Experiment, defaults, preset
from edgefl.federation import Federation, training_bytes
from edgefl.models import NAMES
from edgefl.runs import Journal, open_run, read_experiment
from edgefl.simulate import simulate
from edgefl.spec import ModelSpec

RUNS = "edgefl-runs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. A mistake of the user ends as one sentence on stderr, never as a traceback."""
    options = vars(parser().parse_args(arguments))
    command = options.pop("command")
    try:
        return _doctor(options) if command == "doctor" else _simulate(options)
    except (ValueError, DataError, RunError) as error:
        print(f"edgefl {command}: {error}", file=sys.stderr)
        return 2
    except (EdgeflError, OSError, RuntimeError) as error:
        print(f"edgefl {command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"edgefl {command}: interrupted; --resume continues from the last checkpoint", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The options. An option that is not given is absent from the result, so that a resumed run can tell."""
    top = argparse.ArgumentParser(prog="edgefl", description="Personalised federated learning on devices.")
    commands = top.add_subparsers(dest="command", required=True)
    check = commands.add_parser("doctor", help="show backend, instruction set, threads, versions and data directories")
    check.add_argument("--json", action="store_true", help="print one JSON object")
    run = commands.add_parser(
        "simulate", help="run federated methods without a network", argument_default=argparse.SUPPRESS
    )
    _add_what(run)
    _add_training(run)
    _add_how(run)
    return top


def _add_what(run: argparse.ArgumentParser) -> None:
    what = run.add_argument_group("what to run")
    what.add_argument("--method", action="append", help=f"one or more of {', '.join(METHODS)}, separated by commas")
    what.add_argument("--data", help="data set; digits comes with the package")
    what.add_argument("--data-dir", help="where the data set's files lie")
    what.add_argument("--model", help=f"one of {', '.join(NAMES)}")
    what.add_argument("--partition", help="iid | dirichlet:ALPHA | dirichlet-classes:ALPHA | group")
    what.add_argument("--clients", type=int)
    what.add_argument("--seed", type=int)
    what.add_argument(
        "--preset", choices=("paper", "code"), help="settings of the FedSPU paper, or of its released code"
    )


def _add_training(run: argparse.ArgumentParser) -> None:
    training = run.add_argument_group("training")
    training.add_argument("--rounds", type=int)
    training.add_argument("--per-round", type=int, help="clients selected in a round")
    training.add_argument("--keep", type=_shares, help="share of active neurons of each capacity tier, e.g. .2,.6,1")
    training.add_argument("--epochs", type=int)
    training.add_argument("--batch", type=int)
    training.add_argument("--lr", type=float)
    training.add_argument("--validation-share", type=float, help="of a client's training samples")
    training.add_argument("--values", choices=("float32", "float16"), help="number format of the payloads")
    training.add_argument("--set", action="append", metavar="NAME=VALUE", help="any other hyper-parameter of a method")


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


def _doctor(options: dict[str, Any]) -> int:
    found = doctor.examine()
    print(json.dumps(found, indent=1) if options["json"] else doctor.describe(found))
    return 0


def _simulate(options: dict[str, Any]) -> int:
    how = {name: options.pop(name, None) for name in ("run_dir", "resume", "workers", "plot", "data_dir")}
    as_json = options.pop("json", False)
    if how["plot"]:
        report.require_matplotlib()
    experiment = _experiment(options, how["resume"])
    experiment.algorithms()  # refuses a wrong hyper-parameter before anything is written
    workers = how["workers"] if how["workers"] is not None else doctor.processors()
    federation = assemble(experiment, how["data_dir"])
    run = how["resume"] or how["run_dir"] or _new_directory(experiment)
    if how["resume"] is None and (run / "run.json").exists():
        raise RunError(f"{run} already holds a run; expected a new directory, or --resume {run}")
    open_run(run, experiment.to_json())
    print(f"run directory: {run}", file=sys.stderr)
    summaries = _run(experiment, federation, run, workers)
    if how["plot"]:
        report.plot(how["plot"], summaries)
    if as_json:
        print(json.dumps({"run": str(run), "experiment": experiment.to_json(), **report.to_json(summaries)}))
    else:
        report.print_tables(Console(), summaries)
    return 0


def _experiment(options: dict[str, Any], resume: Path | None) -> Experiment:
    """The experiment that was asked for, or the one of the resumed run if the options given agree with it."""
    given = _given(options)
    if resume is None:
        return Experiment(**{**defaults(given.get("data", "digits")), **given})
    stored = Experiment.from_json(read_experiment(resume))
    wanted = {**vars(stored), **given}
    for name, value in wanted.items():
        if value != getattr(stored, name):
            raise RunError(f"{resume} was run with {name}={getattr(stored, name)}; expected {name}={value}")
    return stored


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Options as fields of Experiment."""
    given = dict(options)
    if "method" in given:
        given["methods"] = tuple(name for text in given.pop("method") for name in text.split(",") if name)
    methods = list(given.get("methods", Experiment.methods))
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"method={name}; expected one of {', '.join(METHODS)}")
    if "preset" in given:
        given = {**preset(given.pop("preset"), given.get("data", "digits")), **given}
    chosen = dict(given.pop("options", ()))
    for text in given.pop("set", ()):
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text}; expected NAME=VALUE")
        parsed = parse(methods, name, value)
        given.update({name: parsed}) if name in Experiment.__dataclass_fields__ else chosen.update({name: parsed})
    if chosen:
        given["options"] = tuple(sorted(chosen.items()))
    return given


def _new_directory(experiment: Experiment) -> Path:
    numbers = [int(path.name.split("-")[0]) for path in Path(RUNS).glob("[0-9][0-9][0-9]-*")]
    return Path(RUNS) / f"{max(numbers, default=0) + 1:03d}-{experiment.data}"


def _run(experiment: Experiment, federation: Federation, run: Path, workers: int) -> list[report.Summary]:
    settings = experiment.settings(workers)
    tiers = _tiers(experiment, federation)
    display = progress.watch()
    summaries = []
    try:
        for name, algorithm in experiment.algorithms().items():
            journal = Journal(run / name)
            display.begin(name, settings.rounds, max(journal.committed.round, 0))
            state = simulate(algorithm, federation, settings, journal, display.line)
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

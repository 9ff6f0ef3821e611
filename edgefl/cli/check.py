"""`edgefl check DATA` prints one page that describes the user's data before anything is trained."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from edgefl.cli.experiment_arguments import DATA_DIR, add_experiment, unlist
from edgefl.cli.experiment_options import requested
from edgefl.cli.memory_table import size
from edgefl.cli.step_time import time_step
from edgefl.cli.working import working
from edgefl.errors import DataError, RequestError
from edgefl.experiment.experiment_fields import DATA_SETS
from edgefl.experiment.model_file import NAMED
from edgefl.experiment.run_data import data_of
from edgefl.experiment.settings import processors
from edgefl.learning.memory import TrainingConfiguration
from edgefl.models.graph import Model
from edgefl.study.data_check import ColumnUnits, Counts, DataCheck, PlannedTraining, check

USED = (
    "--model", "--method", "--partition", "--clients", "--fewest", "--label", "--group", "--time", "--drop", "--axes",
    "--image-size", "--missing", "--standardise", "--loss", "--lr", "--batch", "--epochs", "--per-round", "--seed",
    "--split", "--train", "--train-share", "--validation-share",
)  # fmt: skip
SHOWN = 12  # largest number of columns, classes or groups that the page lists


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the data, and the options of `edgefl simulate` that say how the data are read and what is trained."""
    parser.epilog = (
        "The other options of `edgefl simulate` are accepted as well. The exit code is 1 where `edgefl simulate` would "
        "refuse the data."
    )
    parser.add_argument("brought", metavar="DATA", help=DATA_SETS)
    add_experiment(parser)
    unlist(parser, USED.__contains__)
    parser.add_argument("--data-dir", metavar="DIR", help=DATA_DIR)


def run(options: argparse.Namespace) -> int:
    """Read the data, time a step, and print the page. Raises RequestError for data that cannot be read."""
    given = dict(vars(options))
    data_dir, as_json = given.pop("data_dir"), given.pop("json")
    given["data"] = given.pop("brought")
    try:
        with working(f"reading {given['data']}"):
            experiment, model = requested(given, None, data_dir=data_dir)
            data = data_of(experiment, data_dir)
    except (ValueError, DataError, OSError) as error:
        raise RequestError(str(error)) from error
    with working("describing the data and timing a step"):
        found = check(experiment, data, model, _seconds)
    if as_json:
        print(json.dumps(_as_json(found)))
    else:
        print("\n".join(_page(found)))
    return int(found.is_refused)


def _seconds(model: Model, training: TrainingConfiguration) -> float:
    return time_step(model, training).seconds


def _as_json(found: DataCheck) -> dict[str, Any]:
    columns = [each._asdict() for each in found.columns]
    warnings = [each._asdict() for each in found.warnings]
    plan = found.training
    seconds = {} if plan is None else {"round_seconds": plan.round_seconds(processors())}
    return {**asdict(found), "columns": columns, "warnings": warnings, **seconds}


def _page(found: DataCheck) -> Iterator[str]:
    """Yield the lines of the page."""
    samples, *extents = found.shape
    shape = " x ".join(map(str, extents))
    yield f"{found.name}: {samples} samples of {shape} {found.kind}, from {found.low:g} to {found.high:g}"
    yield f"  test part that nobody owns: {found.test or 'no'} samples; missing values: {found.missing or 'none'}"
    yield from (f"  {note}" for note in found.notes)
    if found.classes:
        yield f"classes: {_listed(found.classes)}"
    if found.groups:
        yield from _groups(found)
    if found.columns:
        yield from _columns(found.columns)
    if found.training is not None:
        yield from _training(found.training)
    yield from _warnings(found)


def _groups(found: DataCheck) -> Iterator[str]:
    sizes = [count for _, count in found.groups]
    middle = sizes[len(sizes) // 2]
    ends = f"{sizes[0]} to {sizes[-1]} samples, {middle} in the middle"
    yield f"groups: {len(sizes)}, of {ends}: {_listed(found.groups)}"


def _columns(columns: Sequence[ColumnUnits]) -> Iterator[str]:
    """Yield a table of the columns whose values spread most."""
    widest = sorted(columns, key=lambda each: -each.spread)[:SHOWN]
    chosen = [each for each in columns if each in widest]
    yield f"columns: {len(columns)}" + (f", the {SHOWN} of the widest spread" if len(columns) > SHOWN else "")
    wide = max(len("column"), *(len(each.name) for each in chosen))
    yield f"  {'column':<{wide}} {'median':>11} {'spread':>11} {'smallest':>11} {'largest':>11} {'outliers':>8}"
    for each in chosen:
        numbers = " ".join(f"{value:>11.4g}" for value in (each.median, each.spread, each.low, each.high))
        yield f"  {each.name:<{wide}} {numbers} {each.outliers:>8}"


def _training(plan: PlannedTraining) -> Iterator[str]:
    shape = " x ".join(map(str, plan.input_shape))
    model = "the model of the file" if plan.model.startswith(NAMED) else plan.model
    yield (
        f"training: {model}, {shape} to {plan.outputs} outputs, loss={plan.loss}, {plan.parameters} parameters "
        f"({size(4 * plan.parameters)})"
    )
    yield (
        f"  {plan.clients} clients by partition={plan.partition}, {plan.train[0]} to {plan.train[1]} samples for "
        f"training each; {plan.per_round} a round, {plan.steps:.3g} steps each"
    )
    workers = processors()
    yield (
        f"  memory of a step {size(plan.memory_bytes)} (account exact); {1e3 * plan.step_seconds:.3g} ms a step here, "
        f"about {plan.round_seconds(workers):.3g} s of training a round with {workers} workers"
    )


def _warnings(found: DataCheck) -> Iterator[str]:
    for each in found.warnings:
        kind = "refused" if each.is_refusal else "mind"
        yield f"{kind}: {each.what}{f'; {each.remedy}' if each.remedy else ''}"
    if not found.warnings:
        yield "nothing to mind"


def _listed(counts: Counts) -> str:
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return ", ".join(f"{name} ({count})" for name, count in counts[:SHOWN]) + more

"""`edgefl inspect` describes a model file and the cost of training the model on this machine."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from edgefl.cli.experiment_arguments import help_of, shares
from edgefl.cli.memory_table import size
from edgefl.cli.step_time import time_steps
from edgefl.cli.working import working
from edgefl.errors import DataError, RequestError
from edgefl.experiment import model_file
from edgefl.experiment.experiment_fields import LOSS
from edgefl.learning.losses import Loss
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.neurons.model_spec import ModelSpec, groups_of, result_axes
from edgefl.models.neurons.trained_part import with_trained
from edgefl.study import tables
from edgefl.system import machine_load

KEEPS = (1.0, 0.5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and the training steps to count and to time."""
    parser.add_argument(
        "model", type=Path, metavar="FILE", help="file of a model that `edgefl convert` or `edgefl export` wrote"
    )
    parser.add_argument(
        "--batch", type=int, default=16, metavar="N", help="number of examples in a step (default: %(default)s)"
    )
    parser.add_argument(
        "--keep",
        type=shares,
        default=KEEPS,
        metavar="SHARE,...",
        help="shares of the neurons that are trained (default: 1,.5)",
    )
    parser.add_argument("--train", default="", metavar="PATTERNS", help=help_of("train"))
    parser.add_argument("--loss", default="cross-entropy", help=f"{LOSS} (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Print the description of the file, then the cost of each step."""
    if not options.model.exists():
        raise RequestError(f"{options.model}: no such file; expected a model that convert or export wrote")
    try:
        model = model_file.read(options.model)
        model = model._replace(graph=with_trained(model.graph, options.train))
        loss = Loss.parse(options.loss)
        trainings = [
            TrainingConfiguration("", model.graph, options.batch, keep=keep, loss=loss) for keep in options.keep
        ]
        with working("timing training steps"):
            steps = _steps(model, trainings)
    except (ValueError, DataError) as error:
        raise RequestError(str(error)) from error
    if options.json:
        busy = machine_load.warning()
        print(json.dumps({"model": str(options.model), **_about(model.graph), "steps": steps, "warning": busy}))
    else:
        _print(options.model, model.graph, steps)
    return 0


def _about(graph: Graph) -> dict[str, Any]:
    spec = ModelSpec.of(graph)
    parameters = {name: math.prod(info.shape) for name, info in graph.parameters().items()}
    return {
        "input_shape": graph.input_shape,
        "output_shape": graph.output_shape,
        "operations": [_operation(graph, node) for node in graph.nodes],
        "groups": dict(spec.groups),
        "parameters": sum(parameters.values()),
        "bytes": 4 * sum(parameters.values()),
        "frozen": spec.frozen_scalars,
        "macs": sum(graph.macs().values()),
    }


def _operation(graph: Graph, node: Node) -> dict[str, Any]:
    axis = result_axes(graph)[node.name]
    return {
        "name": node.name,
        "operation": node.op.title,
        "settings": {field.name: getattr(node.op, field.name) for field in fields(node.op)},
        "inputs": node.inputs,
        "output": graph.shapes[node.name],
        "groups": list(dict.fromkeys(groups_of(axis))),
        "parameters": sum(math.prod(info.shape) for info in node.op.parameters().values()),
        "trained": [name for name in node.op.parameters() if node.full_name(name) not in graph.frozen],
        "frozen": [name for name in node.op.parameters() if node.full_name(name) in graph.frozen],
    }


def _steps(model: Model, trainings: list[TrainingConfiguration]) -> list[dict[str, Any]]:
    """Return memory by the account exact, and the measured time, of a step with each share of the neurons."""
    return [
        {
            "keep": training.keep,
            "batch": training.batch,
            "bytes": estimate("exact", training).total,
            **timed._asdict(),
        }
        for training, timed in zip(trainings, time_steps(model, trainings), strict=True)
    ]


def _print(path: Path, graph: Graph, steps: list[dict[str, Any]]) -> None:
    about, console = _about(graph), tables.console()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for title in ("node", "operation", "settings", "output", "neurons", "parameters"):
        table.add_column(title, justify="right" if title == "parameters" else "left", overflow="fold")
    for row in about["operations"]:
        table.add_row(*_cells(row, about["groups"]))
    console.print(f"{path}: takes {_extents(graph.input_shape)}, gives {_extents(graph.output_shape)}", highlight=False)
    console.print(table)
    count, macs = about["parameters"], about["macs"]
    console.print(
        f"{count} parameters, {size(4 * count)}; {macs / 1e6:.4g} million multiply-accumulates forward, per example.",
        highlight=False,
    )
    if about["frozen"]:
        console.print(_frozen(about), highlight=False, soft_wrap=True)
    for step in steps:
        console.print(_sentence(step), highlight=False, soft_wrap=True)
    if busy := machine_load.warning():
        console.print(busy, highlight=False, soft_wrap=True)


def _frozen(about: dict[str, Any]) -> str:
    count, trained = about["frozen"], about["parameters"] - about["frozen"]
    kept = sum("running_mean" in row["frozen"] for row in about["operations"])
    norms = f" {kept} BatchNorms keep their running statistics." if kept else ""
    return (
        f"{count} parameters are frozen: training does not move them, and the rounds of a federation do not send them. "
        f"The other {trained} take {size(4 * trained)}.{norms}"
    )


def _cells(row: dict[str, Any], groups: dict[str, int]) -> list[str]:
    settings = " ".join(f"{name}={_short(value)}" for name, value in row["settings"].items())
    neurons = ", ".join(f"{group} ({groups[group]})" for group in row["groups"]) or "all"
    count = str(row["parameters"]) if row["parameters"] else ""
    if row["frozen"]:
        count += f", frozen {', '.join(row['frozen'])}" if row["trained"] else " frozen"
    return [row["name"], row["operation"], settings, _extents(row["output"]), neurons, count]


def _short(value: Any) -> str:
    return _extents(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)


def _extents(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _sentence(step: dict[str, Any]) -> str:
    what = "all neurons" if step["keep"] == 1 else f"p = {step['keep']:g} of the neurons"
    return (
        f"A training step of {step['batch']} with {what}: {size(step['bytes'])} of memory by the account exact; "
        f"{1e3 * step['seconds']:.3g} ms here, measured: the median of {step['calls']} runs in turn, half of which "
        f"took {' to '.join(f'{1e3 * each:.3g}' for each in step['quartiles'])} ms; {step['where']}."
    )

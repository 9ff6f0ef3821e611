"""`python -m bench peers`: LeNet5's training step (20-50-500-26, B = 16) beside ONNX Runtime, MNN, ExecuTorch, LiteRT
and eager PyTorch.

Each trainer is a process on one thread of one processor, and they take turns. Processor time and resident memory are
measured. All trainers start from one set of weights and take the same batches. It is checked before that their first
losses agree and that all losses fall. An environment that is missing is made. A trainer that cannot be installed is
left out, with a message. ExecuTorch and LiteRT read files that a process of their own makes before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.runner import Effort
from bench.trainers import task
from bench.trainers.comparison import FROZEN, OWN, Result, as_dict, compare, judged
from bench.trainers.environments import NotInstalledError, python_of
from bench.trainers.trainer import Trainer, prepare, trainer
from edgefl.models.graph.architectures import build
from edgefl.rng import INIT, stream

FULL, QUICK = Effort(rounds=21, turn_s=0.2), Effort(rounds=3, turn_s=0.02)
MB = 1e6
PYTORCH = "pytorch"
FILES_BY = {  # trainer -> the environment and the module that make its files, as an app's build would
    "onnxruntime": ("onnxruntime", "onnxruntime_artifacts"),
    "executorch": ("executorch", "executorch_program"),
    "litert": ("tensorflow", "litert_signatures"),
}
OTHERS = ("onnxruntime", "mnn", "executorch", "litert", PYTORCH)


def main(arguments: list[str]) -> int:
    """Run the bench, and return 1 if a bar against ONNX Runtime is missed."""
    options = _parser().parse_args(arguments)
    facts = machine.facts()
    with tempfile.TemporaryDirectory(prefix="edgefl-peers-") as name, ExitStack() as running:
        folder = Path(name)
        graph = build("lenet5", task.SHAPE, task.CLASSES)
        task.write(task.draw(graph.init(stream(task.SEED, INIT))), folder)
        trainers = _start(options, folder, running)
        results = compare(trainers, QUICK if options.quick else FULL)
    (_print_json if options.json else _print_table)(facts, results)
    return int(any(ratio < bar for ratio, bar in judged(results).values()))


def _start(options: argparse.Namespace, folder: Path, running: ExitStack) -> list[Trainer]:
    """Start edgefl at p = 1 and .2, and then the other trainers that can be had."""
    here = Path(sys.executable)
    wanted = [(OWN, here, "edgefl_trainer", "1"), (FROZEN, here, "edgefl_trainer", "0.2")]
    for name in options.trainers:
        if (python := _python_of(name, options)) and _has_files(name, options, folder):
            wanted.append((name, python, f"{name}_trainer"))
    return [
        running.enter_context(trainer(name, python, module, folder, *more)) for name, python, module, *more in wanted
    ]


def _has_files(name: str, options: argparse.Namespace, folder: Path) -> bool:
    """Make the files that a trainer reads, if it reads any. Return False if their maker cannot be installed."""
    if name not in FILES_BY:
        return True
    environment, module = FILES_BY[name]
    python = _python_of(environment, options)
    if python:
        prepare(python, module, folder)
    return python is not None


def _python_of(name: str, options: argparse.Namespace) -> Path | None:
    if name == PYTORCH:
        return Path(sys.executable)
    try:
        return python_of(name, options.environments, options.python)
    except NotInstalledError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


def _print_json(facts: machine.Facts, results: Sequence[Result]) -> None:
    print(json.dumps({"machine": facts}))
    for each in results:
        print(json.dumps(as_dict(each)))
    for own, (ratio, bar) in judged(results).items():
        print(json.dumps({"over": own, "ratio": ratio, "bar": bar}))


def _print_table(facts: machine.Facts, results: Sequence[Result]) -> None:
    table = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()), title_justify="left")
    headings = ("trainer", "version", "ms a step", "quartiles", f"over {OWN}", f"over {FROZEN}", "resident MB", "loss")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("trainer", "version") else "right")
    medians = {each.trainer: each.step.median_s for each in results}
    for each in results:
        low, high = (f"{1e3 * value:.2f}" for value in (each.step.low_s, each.step.high_s))
        ratios = (f"{each.step.median_s / medians[own]:.2f}" for own in (OWN, FROZEN))
        loss = f"{each.first_loss:.2f} to {each.last_loss:.2f}"
        memory = f"{each.resident_bytes / MB:.0f}"
        table.add_row(
            each.trainer, each.version, f"{1e3 * each.step.median_s:.2f}", f"{low} {high}", *ratios, memory, loss
        )
    console = Console()
    console.width = max(console.width, 140)
    console.print(table)
    for own, (ratio, bar) in judged(results).items():
        print(f"ONNX Runtime over {own}: {ratio:.2f}, asked {bar:g}: {'met' if ratio >= bar else 'missed'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=__doc__)
    parser.add_argument(
        "--trainers", type=_trainers, default=OTHERS, help=f"of {', '.join(OTHERS)}, separated by commas"
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "edgefl-bench"
    parser.add_argument("--environments", type=Path, default=cache, metavar="DIR", help=f"default: {cache}")
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="the interpreter that environments are made with, 3.9 to 3.12 for ONNX Runtime; default: this one",
    )
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then a line a trainer")
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    return parser


def _trainers(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name not in OTHERS:
            raise argparse.ArgumentTypeError(f"trainer {name!r}; expected some of {', '.join(OTHERS)}")
    return tuple(text.split(","))

"""`python -m bench arm`: instructions of training steps on aarch64 under qemu, and an estimate of seconds from them.

On an ARM machine the same command prints measured seconds instead. scripts/arm.sh prepare makes what qemu needs, and
scripts/arm.sh peers makes torch and MNN for aarch64. A trainer that does not run is named with its error. `python -m
bench arm mca` prints cycles of inner loops by llvm-mca, and `python -m bench arm bodies` instructions of operations.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.arm import bodies, counting
from bench.arm.cores import ASSUMED, CORES
from bench.arm.counting import Count
from bench.arm.emulator import CannotCountError, emulator
from bench.processes import ROOT
from edgefl.learning.lowering.mac_counts import step_macs
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.graph.model_files import save
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.rng import INIT, NEURONS, stream

BATCHES = {
    "fedspu_cifar": 16,
    "fedspu_emnist": 16,
    "fedspu_speech": 16,
    "pflego_mlp": 16,
    "vgg11": 2,
    "mobilenet_v2": 2,
}
SHAPES = {
    "fedspu_cifar": ((3, 32, 32), 10),
    "fedspu_emnist": ((1, 28, 28), 62),
    "fedspu_speech": ((1, 32, 32), 35),
    "mobilenet_v2": ((3, 32, 32), 10),
}
SEED = 1
OF_SCALAR, OF_TORCH, OVER_BOUND = 0.6, 0.5, 1.08


def main(arguments: list[str]) -> int:
    """Print the table, and return 1 if counting is not possible here."""
    if arguments and arguments[0] == "mca":
        return importlib.import_module("bench.arm.mca").main(arguments[1:])
    if arguments and arguments[0] == "bodies":
        return bodies.main(arguments[1:], default_folder())
    options = _parser().parse_args(arguments)
    try:
        counts = list(_counts(options))
    except CannotCountError as error:
        print(f"bench arm: {error}", file=sys.stderr)
        return 1
    if not options.json:
        _print_table(counts)
    return 0


def _counts(options: argparse.Namespace) -> Iterator[Count]:
    with tempfile.TemporaryDirectory(prefix="edgefl-arm-") as name:
        scratch = Path(name)
        execute = _directly if _is_arm() else emulator(options.folder, options.cpu, scratch).counts
        for model in options.models:
            path = scratch / f"{model}.safetensors"
            graph = _graph(model)
            save(path, Model(graph, graph.init(stream(SEED, INIT))))
            for each in counting.count(execute, path, options.batch or BATCHES[model], options.runs):
                print(json.dumps(asdict(each)), file=sys.stdout if options.json else sys.stderr, flush=True)
                yield each


def _is_arm() -> bool:
    return platform.machine() in ("aarch64", "arm64")


def _directly(arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, list[int]]:
    """Run a trainer on a real ARM machine, where nothing is counted."""
    own = {"PYTHONPATH": str(ROOT), "EDGEFL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own, **environment})
    if result.returncode:
        raise CannotCountError(f"exit code {result.returncode}: {(result.stderr.strip().splitlines() or [''])[-1]}")
    return result.stdout.splitlines()[-1], []


def _graph(model: str) -> Graph:
    shape, classes = SHAPES.get(model) or EXAMPLES[model]
    if model != "mobilenet_v2":
        return build(model, shape, classes)
    brought, nn, torch = (importlib.import_module(name) for name in ("bench.brought", "edgefl.torch", "torch"))
    return nn.from_torch(brought.mobilenet_v2(classes), torch.zeros(2, *shape)).graph


def judged(counts: Mapping[str, float], bound: float) -> dict[str, tuple[float, float]]:
    """Return ratios of a model's counts by run, each with its upper limit. Only runs that have counts are compared."""
    neon, frozen = counting.NEON.name, counting.NEON_FROZEN.name
    wanted = {
        "NEON of scalar, p = 1": (neon, counting.SCALAR.name, OF_SCALAR),
        "NEON of scalar, p = .2": (frozen, counting.SCALAR_FROZEN.name, OF_SCALAR),
        "NEON of torch": (neon, counting.TORCH.name, OF_TORCH),
        "NEON of MNN": (neon, counting.MNN.name, 1.0),
        "p = .2 of p = 1": (frozen, neon, bound * OVER_BOUND),
    }
    there = {name: row for name, row in wanted.items() if {row[0], row[1]} <= counts.keys()}
    return {name: (counts[a] / counts[b], bar) for name, (a, b, bar) in there.items()}


def _print_table(counts: Sequence[Count]) -> None:
    table = Table(title="a training step, one thread", title_justify="left")
    for heading in ("model", "batch", "trainer", "version", "M instructions", *(f"{core.board} ms" for core in CORES)):
        table.add_column(heading, justify="left" if heading in ("model", "trainer", "version") else "right")
    for each in counts:
        table.add_row(each.model, str(each.batch), each.run, each.version, *_cells(each))
    console = Console()
    console.width = max(console.width, 150)
    console.print(table)
    for model in dict.fromkeys(each.model for each in counts):
        _print_verdicts(model, [each for each in counts if each.model == model])
    print("measured on this machine" if _is_arm() else f"milliseconds are an estimate, nothing measured: {ASSUMED}")


def _cells(each: Count) -> list[str]:
    if each.error:
        return [f"does not run: {each.error}"]
    if each.instructions is None:
        return [f"{1e3 * (each.step_s or 0):.2f} ms measured"]
    return [f"{each.instructions / 1e6:.2f}", *(f"{1e3 * core.seconds(each.instructions):.1f}" for core in CORES)]


def _print_verdicts(model: str, counts: Sequence[Count]) -> None:
    values = {each.run: value for each in counts if (value := each.instructions or each.step_s)}
    graph = _graph(model)
    neurons = NeuronSet.draw(ModelSpec.of(graph), counting.FROZEN, stream(SEED, NEURONS))
    for what, (ratio, bar) in judged(values, step_macs(graph, neurons) / step_macs(graph)).items():
        print(f"{model}: {what}: {ratio:.3f}, asked at most {bar:.3g}: {'met' if ratio <= bar else 'missed'}")


def default_folder() -> Path:
    """Return the folder in which scripts/arm.sh prepare makes what counting needs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "edgefl-arm"
    return Path(os.environ.get("EDGEFL_ARM", cache))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench arm", description=__doc__)
    folder = default_folder()
    parser.add_argument("--models", type=_models, default=tuple(BATCHES), help=f"of {', '.join(BATCHES)}; default: all")
    parser.add_argument("--runs", type=_runs, default=counting.RUNS, help="of edgefl, torch, mnn; default: all")
    parser.add_argument("--batch", type=int, help=f"in place of the models' own, {BATCHES}")
    parser.add_argument(
        "--cpu", default="cortex-a76", help="qemu's processor; default: cortex-a76; torch dies on a cortex-a72"
    )
    parser.add_argument("--folder", type=Path, default=folder, help=f"of scripts/arm.sh prepare; default: {folder}")
    parser.add_argument("--json", action="store_true", help="a JSON line a run, and no table")
    return parser


def _models(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name not in BATCHES:
            raise argparse.ArgumentTypeError(f"model {name!r}; expected some of {', '.join(BATCHES)}")
    return tuple(text.split(","))


def _runs(text: str) -> tuple[counting.Run, ...]:
    names = {run.trainer for run in counting.RUNS}
    for name in text.split(","):
        if name not in names:
            raise argparse.ArgumentTypeError(f"run {name!r}; expected some of {', '.join(sorted(names))}")
    return tuple(run for run in counting.RUNS if run.trainer in text.split(","))

"""`python -m bench simulators`: edgefl's simulation beside a bare loop in PyTorch, in turns, one thread each.

Every run is a process of its own. Each start has another seed, from 1 on, for the clients of the rounds and the orders
of samples. The processor time is that of the rounds, without imports and without reading data. Time and memory (PSS)
include the processes that a side starts.
The rounds have no evaluation. The last global model is tested on all clients' test samples. With --peers DIR other
simulators are run as well, each in an environment of its own, which the command makes in DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from bench import machine
from bench.figures import Figure, print_json, print_table
from bench.processes import ROOT
from bench.simulators import torch_side
from bench.simulators.peers import PEERS, environment
from bench.simulators.process_tree import run_watched
from bench.simulators.task import CLIENTS, MODELS, SHAPES, Asked, Result, Shape
from edgefl import rng
from edgefl.experiment.data.catalog import load

OURS = ("edgefl", "torch")  # sides that run under the Python of this command
BAND = 0.03  # of the mean accuracy of the starts: the sides draw other orders of samples
QUICK = {"few-large": Shape(4, 30, 2), "many-small": Shape(12, 20, 3)}


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return 1 if the accuracies of the sides differ by more than BAND."""
    options = _parser().parse_args(arguments)
    shapes = QUICK if options.quick else {name: SHAPES[name] for name in options.shapes.split(",")}
    rounds, starts = (3, 1) if options.quick else (options.rounds, options.starts)
    facts = machine.facts()
    if options.registered:
        (print_json if options.json else print_table)(
            facts, _of_many(options.registered, 20 if options.quick else 1000)
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        peers = {} if options.peers is None else {name: environment(options.peers, name) for name in PEERS}
        pythons = {**dict.fromkeys(OURS, sys.executable), **peers}
        measured = _figures(Path(folder), shapes, options.data_dir, rounds, starts, options.quick, pythons)
        figures: list[Figure] = []
        (print_json if options.json else print_table)(facts, _kept(measured, figures))
    off = [each for each in figures if each.bar is not None and each.unit == "points" and each.value > each.bar]
    return int(bool(off) and not options.quick)


def _kept(measured: Iterable[Figure], figures: list[Figure]) -> Iterator[Figure]:
    """Yield the figures as they are measured, and append them to the list."""
    for each in measured:
        figures.append(each)
        yield each


def _figures(
    folder: Path,
    shapes: dict[str, Shape],
    data_dir: str | None,
    rounds: int,
    starts: int,
    is_quick: bool,
    pythons: Mapping[str, str],
) -> Iterator[Figure]:
    for name, shape in shapes.items():
        file = folder / f"{name}.npz"
        _save_images(file, shape, data_dir, is_quick)
        for model in MODELS:
            _save_first_values(file.with_name(f"{model}.npz"), model)
            found: dict[str, list[Result]] = {side: [] for side in pythons}
            for seed in range(1, starts + 1):
                given = Asked(file, shape, model, rounds, seed)
                _save_clients(given)
                for side, interpreter in pythons.items():
                    found[side].append(_run(side, interpreter, given))
            yield from _compared(f"{name}, {model}", found)


def _of_many(clients: int, per_round: int) -> list[Figure]:
    """Return the figures of a simulation in which so many clients are registered (many_clients.py)."""
    given = map(str, (clients, per_round, 6))
    line, _ = run_watched([sys.executable, "-m", "bench.simulators.many_clients", *given], _environment())
    found = json.loads(line)
    what = f"{clients:,} clients of 10 samples, {per_round:,} a round"
    return [
        Figure(f"{what}: until the end of round 1", found["start_s"], "s"),
        Figure(f"{what}: a round", found["round_s"], "s"),
        Figure(f"{what}: a round with the evaluation of all clients", found["evaluation_s"], "s"),
        Figure(f"{what}: resident, largest", found["peak_mb"], "MB", note=f"samples: {found['samples_mb']:.0f} MB"),
    ]


def _compared(what: str, found: dict[str, list[Result]]) -> Iterator[Figure]:
    times = {side: [each.cpu_ms for each in results] for side, results in found.items()}
    for side, results in found.items():
        note = "each start: " + ", ".join(f"{each:.2f}" for each in times[side])
        yield Figure(f"{what}, {side}: processor, a client and round", statistics.median(times[side]), "ms", note=note)
        yield Figure(f"{what}, {side}: memory, largest", max(each.peak_mb for each in results), "MB")
        right = [100 * each.accuracy for each in results]
        note = "each start: " + ", ".join(f"{each:.1f}" for each in right)
        yield Figure(f"{what}, {side}: accuracy", statistics.mean(right), "%", note=note)
    accuracies = [statistics.mean(each.accuracy for each in results) for results in found.values()]
    for side in [each for each in found if each != "edgefl"]:
        ratio, bar = statistics.median(times["edgefl"]) / statistics.median(times[side]), PEERS.get(side)
        yield Figure(f"{what}: edgefl over {side}, processor", ratio, "", None if bar is None else bar.bar)
    spread = 100 * (max(accuracies) - min(accuracies))
    yield Figure(f"{what}: largest difference of the accuracies", spread, "points", 100 * BAND)


def _save_images(file: Path, shape: Shape, data_dir: str | None, is_quick: bool) -> None:
    """Save the images of all clients, as bytes. A quick run has drawn images."""
    count = shape.clients * shape.images
    if is_quick:
        draw = np.random.default_rng(1)
        x, y = draw.integers(0, 256, (count, 1, 28, 28)).astype(np.uint8), draw.integers(0, 10, count)
    else:
        found = load("fashion-mnist", data_dir, fetch=False)
        x, y = found.x[:count], found.y[:count]
    np.savez(file, x=x, y=y.astype(np.int64))


def _save_clients(given: Asked) -> None:
    """Save the clients of each round, which are the clients that edgefl draws."""
    streams = [rng.stream(given.seed, rng.SELECT, round=round) for round in range(1, given.rounds + 1)]
    found = [each.sample(given.shape.clients, given.shape.per_round) for each in streams]
    np.save(given.file.with_name(CLIENTS), found)


def _save_first_values(file: Path, model: str) -> None:
    torch.manual_seed(1)
    np.savez(file, *(each.detach().numpy() for each in torch_side.model_of(model).parameters()))


def _run(side: str, interpreter: str, given: Asked) -> Result:
    command = [interpreter, "-m", f"bench.simulators.{side}_side", *given.arguments()]
    line, peak = run_watched(command, _environment())
    return Result(**{**json.loads(line), "peak_mb": peak})


def _environment() -> dict[str, str]:
    """Return the environment of a side: one thread, this checkout to import from, and no messages to other hosts."""
    one = dict.fromkeys(("EDGEFL_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    silent = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **one, **silent, "PYTHONPATH": str(ROOT)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench simulators", description=__doc__)
    parser.add_argument("--shapes", default=",".join(SHAPES), help="names, separated by commas; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=20, help="number of rounds; default: %(default)s")
    parser.add_argument("--starts", type=int, default=5, help="number of runs of each side; default: %(default)s")
    parser.add_argument("--peers", type=Path, help="directory with environments of other simulators, made if missing")
    parser.add_argument(
        "--registered", type=int, metavar="N", help="time a simulation of N clients of 10 samples alone"
    )
    parser.add_argument("--data-dir", help="directory with the files of Fashion-MNIST")
    parser.add_argument("--quick", action="store_true", help="few drawn images: shows that it runs, and not how fast")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each figure")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

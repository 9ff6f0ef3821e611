"""Very many registered clients: `python -m bench.simulators.many_clients CLIENTS PER_ROUND ROUNDS`.

Each client has 10 drawn samples of 8 x 8 bytes, and the model is the MLP 64-32-10. The last round evaluates the global
model on the test sample of every client. The program prints one line of JSON with its `Found`.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import edgefl
from bench.simulators.task import BATCH, RATE, peak_mb
from edgefl import rng
from edgefl.models import Graph, Model, Node
from edgefl.models.graph import INPUT
from edgefl.models.graph.operations import Flatten, Linear, ReLU

SAMPLES, SIDE, CLASSES = 10, 8, 10


@dataclass
class Found:
    """The times and the memory of one run.

    start_s       seconds from the call to the end of round 1
    round_s       median seconds of a round after the first that evaluates nobody
    evaluation_s  seconds of the last round, with the evaluation of all clients
    peak_mb       largest resident memory of the process
    samples_mb    size of all samples and labels in memory
    """

    start_s: float
    round_s: float
    evaluation_s: float
    peak_mb: float
    samples_mb: float


def model() -> Model:
    nodes = (
        Node("flat", Flatten(), (INPUT,)),
        Node("hidden", Linear(SIDE * SIDE, 32), ("flat",)),
        Node("relu", ReLU(), ("hidden",)),
        Node("out", Linear(32, CLASSES), ("relu",)),
    )
    graph = Graph((1, SIDE, SIDE), nodes)
    return Model(graph, graph.init(rng.stream(1, rng.INIT)))


def save_samples(file: Path, clients: int) -> float:
    """Save the samples of all clients, and return their size in megabytes."""
    draw = np.random.default_rng(1)
    x = draw.integers(0, 256, (clients * SAMPLES, 1, SIDE, SIDE), np.uint8)
    y = draw.integers(0, CLASSES, len(x)).astype(np.int32)
    np.savez(file, x=x, y=y, group=np.repeat(np.arange(clients, dtype=np.int32), SAMPLES))
    return (x.nbytes + y.nbytes) / 1e6


def run(folder: Path, per_round: int, rounds: int, samples_mb: float) -> Found:
    started, marks = time.perf_counter(), list[float]()
    edgefl.simulate(
        "fedavg", model=model(), data=f"{folder}/data.npz", directory=f"{folder}/run",
        clients="all", partition="group", per_round=per_round, rounds=rounds, epochs=1, batch=BATCH, lr=RATE,
        train_share=1 - 1 / SAMPLES, validation_share=0.0, eval_every=rounds, evaluate_first=False,
        checkpoint_every=rounds, workers=1, progress=False, on_round=lambda record: marks.append(time.perf_counter()),
    )  # fmt: skip
    spent = [after - before for before, after in pairwise(marks)]
    return Found(marks[0] - started, statistics.median(spent[:-1]), spent[-1], peak_mb(), samples_mb)


def main(arguments: list[str]) -> None:
    clients, per_round, rounds = map(int, arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # the samples' memory is not this process's
            samples_mb = apart.submit(save_samples, file, clients).result()
        print(json.dumps(asdict(run(Path(folder), per_round, rounds, samples_mb))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

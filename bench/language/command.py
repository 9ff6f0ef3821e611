"""`python -m bench language`: a transformer of 5.5 million parameters learns the characters of Shakespeare's roles.

Centrally it learns from other roles than the federation's. The federation begins with this model: its clients are the
roles with the most text. A row has the perplexity of a character on the clients' test samples, and CPU seconds. The run
is short, so that it fits into 20 minutes of one core: the figures say what works and what it costs, not how good a
model can become. --record keeps the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import edgefl
from bench import machine
from bench.language.network import BLOCKS, DATA, LENGTH, transformer, windows
from edgefl import rng
from edgefl.errors import DataError
from edgefl.learning import Adam, GraphLearner, Samples
from edgefl.learning.batches import Minibatches
from edgefl.learning.scores import perplexity
from edgefl.models.graph import Graph, Model

RECORD = Path(__file__).with_name("record.jsonl")
CLIENTS, OTHERS, SAMPLES, BATCH, RATE = 6, 12, 48, 8, 1e-3
FEDERATED: dict[str, dict[str, Any]] = {
    "FedAvg": {"method": "fedavg"},
    "FedAvg, then one epoch at each client": {"method": "fedavg-ft"},
    "FedSPU": {"method": "fedspu"},
    "FedAvg of the last two blocks, then one epoch": {
        "method": "fedavg-ft",
        "train": [f"block{BLOCKS - 2}.*", f"block{BLOCKS - 1}.*", "norm.*", "head.*"],
    },
    "PFLEGO": {
        "method": "pflego",
        "tau": 50,
        "beta": 0.002,
        "server": "adam",
        "rho": 1e-4,
        **dict.fromkeys(("batch", "epochs", "lr")),  # PFLEGO has none of them
    },
}


def main(arguments: Sequence[str]) -> int:
    """Return 2 if the data are missing, and 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m bench language", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="shakespeare_roles.npz (default: shared/data)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the federation (default: 3)")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="file that keeps the rows")
    options = parser.parse_args(arguments)
    if not options.data.exists():
        print(f"language: {options.data} does not exist; expected the file of roles (--data)", file=sys.stderr)
        return 2
    machine.use_threads(1)
    facts = machine.facts()
    rows = []
    for row in measured(options.data, options.rounds):
        rows.append({**row, "machine": facts})
        print(json.dumps(row), flush=True)
        if options.record is not None:
            options.record.write_text("".join(f"{json.dumps(each)}\n" for each in rows), "utf-8")
    return 0


def measured(file: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for the model before training, for central training, and for each way to train in a federation."""
    graph = transformer()
    own, others = parts(file)
    model = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    test = Samples(own["x"].astype(np.float32), own["y"].astype(np.int32))
    yield {"name": "untrained", **_size(graph), "perplexity": _perplexity(model, test), "cpu_s": 0.0}
    begun = time.process_time()
    model = _central(model, others)
    seconds = round(time.process_time() - begun, 1)
    yield {"name": "central, on other roles", **_size(graph), "perplexity": _perplexity(model, test), "cpu_s": seconds}
    for name, settings in FEDERATED.items():
        yield {"name": name, **_size(graph), **_federated(model, own, settings, rounds)}


def parts(file: Path) -> tuple[dict[str, Any], Samples]:
    """Return the samples of the roles with the most text, grouped by role, and samples of the next roles."""
    with np.load(file) as archive:
        text, ends = archive["train"], archive["train_offsets"]
    if len(ends) <= CLIENTS + OTHERS:
        raise DataError(f"{file} has {len(ends) - 1} roles; expected at least {CLIENTS + OTHERS}")
    order = np.argsort(-np.diff(ends), kind="stable")[: CLIENTS + OTHERS]
    found = [windows(text[ends[role] : ends[role + 1]], SAMPLES) for role in order]
    x, y = (np.concatenate([each[part] for each in found[:CLIENTS]]) for part in (0, 1))
    group = np.repeat(np.arange(CLIENTS), [len(each[0]) for each in found[:CLIENTS]])
    own = {"x": x, "y": y, "group": group, "targets": "labels", "vocabulary": 78, "classes": 78}
    others = (np.concatenate([each[part] for each in found[CLIENTS:]]) for part in (0, 1))
    inputs, targets = others
    return own, Samples(inputs.astype(np.float32), targets.astype(np.int32))


def _central(model: Model, samples: Samples) -> Model:
    learner, rows = GraphLearner(model), np.arange(len(samples), dtype=np.int32)
    draw = np.random.default_rng(1)
    learner.fit(samples, Minibatches(rows, lambda _: draw.permutation(len(rows)), 1, BATCH), Adam(RATE))
    return Model(model.graph, {name: value.copy() for name, value in learner.read().items()})


def _perplexity(model: Model, samples: Samples) -> float:
    found = GraphLearner(model).evaluate(samples)
    return round(perplexity(found.loss_sum / found.examples), 3)


def _federated(model: Model, own: dict[str, Any], settings: dict[str, Any], rounds: int) -> dict[str, Any]:
    asked = {"clients": CLIENTS, "per_round": 3, "rounds": rounds, "batch": BATCH, "epochs": 1, "workers": 1}
    asked |= {"optimizer": "adam", "lr": RATE, "eval_every": rounds, "partition": "group", **settings}
    asked = {name: value for name, value in asked.items() if value is not None}
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = edgefl.simulate(asked.pop("method"), model=model, data=own, directory=Path(folder) / "run", **asked)
        loss, accuracy = run.method.loss, run.method.accuracy
    seconds = round(time.process_time() - begun, 1)
    assert loss is not None and accuracy is not None
    bits = loss / math.log(2)
    found = {"perplexity": round(perplexity(loss), 3), "bits": round(bits, 4), "accuracy": round(accuracy, 4)}
    return {**found, "rounds": rounds, "clients": CLIENTS, "length": LENGTH, "cpu_s": seconds}


def _size(graph: Graph) -> dict[str, int]:
    return {"parameters": sum(math.prod(info.shape) for info in graph.parameters().values())}

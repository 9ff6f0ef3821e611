"""`python -m bench segmentation`: a U-Net says which pixels of a noisy picture belong to which kind of garment.

The pictures are of Fashion-MNIST. Each client has pictures of three kinds. Centrally the U-Net learns from other
pictures of all kinds, as many as the clients train on together. Each federation begins with the untrained U-Net. A row
has the mean intersection over union of the kinds that occur in a client's test pictures or in the decisions on them, as
a mean over the clients. It also has the share of right pixels and CPU seconds. The run fits into 15 minutes of one
core: the figures say what works and what it costs, not how good a model can become. --record keeps the rows.
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
from bench.segmentation.network import labelled, u_net
from edgefl import rng
from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.federation import Federation
from edgefl.learning import Adam, GraphLearner, Samples
from edgefl.learning.batches import Minibatches
from edgefl.models.graph import Model

RECORD = Path(__file__).with_name("record.jsonl")
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CLIENTS, KINDS_EACH, PICTURES = 10, 3, 30  # pictures of each of a client's kinds
PER_ROUND, EPOCHS, BATCH, RATE = 5, 2, 8, 2e-3
FEDERATED: dict[str, dict[str, Any]] = {
    "FedAvg": {"method": "fedavg"},
    "FedAvg, then two epochs at each client": {"method": "fedavg-ft", "ft_epochs": 2},
    "FedSPU": {"method": "fedspu"},
    "local": {"method": "local"},
}
CENTRAL = "central, on other pictures"


def main(arguments: Sequence[str]) -> int:
    """Return 2 if the data are missing, and 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m bench segmentation", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of Fashion-MNIST (default: shared/data)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of each federation (default: 40)")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="file that keeps the rows")
    options = parser.parse_args(arguments)
    try:
        found = load("fashion-mnist", options.data, fetch=False)
    except DataError as error:
        print(f"segmentation: {error}", file=sys.stderr)
        return 2
    machine.use_threads(1)
    facts, rows = machine.facts(), []
    for row in measured(found, options.rounds):
        rows.append({**row, "machine": facts})
        print(json.dumps(row), flush=True)
        if options.record is not None:
            options.record.write_text("".join(f"{json.dumps(each)}\n" for each in rows), "utf-8")
    return 0


def measured(found: DataSet, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each federation, for central training, and for the model before training."""
    graph, (own, others) = u_net(), parts(found)
    untrained = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    size = {"parameters": sum(math.prod(info.shape) for info in graph.parameters().values())}
    federation: Federation | None = None
    for name, settings in FEDERATED.items():
        row, federation = _federated(untrained, own, settings, rounds)
        yield {"name": name, **size, **row}
    assert federation is not None
    epochs = rounds * PER_ROUND * EPOCHS // CLIENTS
    begun = time.process_time()
    model = _central(untrained, others, federation.examples, epochs)
    seconds = round(time.process_time() - begun, 1)
    yield {"name": CENTRAL, **size, **_tested(model, federation), "epochs": epochs, "cpu_s": seconds}
    yield {"name": "untrained", **size, **_tested(untrained, federation), "cpu_s": 0.0}


def parts(found: DataSet) -> tuple[dict[str, Any], Samples]:
    """Return the clients' pictures, grouped by client, and as many other pictures of all kinds.

    Client k has the kinds k, k + 1 and k + 2, modulo 10. No picture is taken twice.
    """
    draw = np.random.default_rng(1)
    by_kind = [draw.permutation(np.flatnonzero(found.y == kind)) for kind in range(10)]
    rows, group = [], []
    for client in range(CLIENTS):
        for kind in ((client + step) % 10 for step in range(KINDS_EACH)):
            chosen, by_kind[kind] = by_kind[kind][:PICTURES], by_kind[kind][PICTURES:]
            rows.append(chosen)
            group += [client] * PICTURES
    others = draw.permutation(np.concatenate([each[: KINDS_EACH * PICTURES] for each in by_kind]))
    x, y = labelled(found.x[np.concatenate(rows)], found.y[np.concatenate(rows)], draw)
    inputs, targets = labelled(found.x[others], found.y[others], draw)
    return {"x": x, "y": y, "group": np.array(group)}, Samples(inputs, targets.astype(np.int32))


def _central(model: Model, samples: Samples, examples: int, epochs: int) -> Model:
    """Train on the first `examples` samples, as many as the clients train on together."""
    learner, rows = GraphLearner(model), np.arange(examples, dtype=np.int32)
    draw = np.random.default_rng(1)
    learner.fit(samples, Minibatches(rows, lambda _: draw.permutation(len(rows)), epochs, BATCH), Adam(RATE))
    return Model(model.graph, {name: value.copy() for name, value in learner.read().items()})


def _tested(model: Model, federation: Federation) -> dict[str, float]:
    """Return the scores of one model on each client's test pictures, as means over the clients."""
    learner = GraphLearner(model)
    found = [learner.evaluate(federation.data, split.test) for split in federation.clients]
    shares = [each.mean_iou for each in found if each.mean_iou is not None]
    right = [each.accuracy for each in found if each.accuracy is not None]
    return {"mean_iou": round(sum(shares) / len(shares), 4), "accuracy": round(sum(right) / len(right), 4)}


def _federated(
    model: Model, own: dict[str, Any], settings: dict[str, Any], rounds: int
) -> tuple[dict[str, Any], Federation]:
    asked = {"clients": CLIENTS, "per_round": PER_ROUND, "rounds": rounds, "batch": BATCH, "epochs": EPOCHS}
    asked |= {"optimizer": "adam", "lr": RATE, "eval_every": rounds, "partition": "group", "workers": 1, **settings}
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = edgefl.simulate(asked.pop("method"), model=model, data=own, directory=Path(folder) / "run", **asked)
        last, federation = run.metrics[-1], run.federation
    seconds = round(time.process_time() - begun, 1)
    scores = {name: round(last[name], 4) for name in ("mean_iou", "accuracy")}
    sent = round(last["payload_bytes"] / 1e6, 2)
    return {**scores, "payload_mb": sent, "rounds": rounds, "clients": CLIENTS, "cpu_s": seconds}, federation

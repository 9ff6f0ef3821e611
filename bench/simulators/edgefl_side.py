"""edgefl's side: `python -m bench.simulators.edgefl_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS SEED`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence

import numpy as np

import edgefl
from bench.simulators.task import BATCH, RATE, TESTED, Rounds, asked, first_values, tell
from edgefl.models import Graph, Model, Node
from edgefl.models.graph import INPUT
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, MaxPool2d, Operation, ReLU

LAYERS: dict[str, list[Operation]] = {
    "mlp": [Flatten(), Linear(784, 200), ReLU(), Linear(200, 10)],
    "cnn": [
        Conv2d(1, 16, (5, 5)), ReLU(), MaxPool2d((2, 2), (2, 2)),
        Conv2d(16, 32, (5, 5)), ReLU(), MaxPool2d((2, 2), (2, 2)),
        Flatten(), Linear(512, 128), ReLU(), Linear(128, 10),
    ],
}  # fmt: skip


def model_of(name: str, values: Sequence[np.ndarray]) -> Model:
    """Return a model whose parameters have these values, in order."""
    names = [f"layer{at}" for at in range(len(LAYERS[name]))]
    below = [INPUT, *names]
    graph = Graph((1, 28, 28), tuple(Node(n, op, (b,)) for n, op, b in zip(names, LAYERS[name], below, strict=False)))
    return Model(graph, dict(zip(graph.parameters(), values, strict=True)))


def main(arguments: list[str]) -> None:
    file, shape, model, rounds, seed = asked(arguments)
    watch, first = Rounds(shape), model_of(model, first_values(file, model))
    with np.load(file) as content, tempfile.TemporaryDirectory() as folder:
        groups = np.repeat(np.arange(shape.clients, dtype=np.int32), shape.images)
        np.savez(f"{folder}/data.npz", x=content["x"], y=content["y"], group=groups)
        run = edgefl.simulate(
            "fedavg", model=first, data=f"{folder}/data.npz", directory=f"{folder}/run",
            clients="all", partition="group", per_round=shape.per_round, rounds=rounds, epochs=1, batch=BATCH, lr=RATE,
            seed=seed, train_share=1 - 1 / TESTED, validation_share=0.0, eval_every=rounds, evaluate_first=False,
            checkpoint_every=rounds, workers=1, progress=False, on_round=lambda record: watch.ended(),
        )  # fmt: skip
        tell(watch.result(run.metrics[-1]["accuracy"]))


if __name__ == "__main__":
    main(sys.argv[1:])

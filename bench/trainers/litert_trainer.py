"""LiteRT's process: python -m bench.trainers.litert_trainer FOLDER, after litert_signatures."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from bench.trainers import task, turns


def main(folder: Path) -> None:
    turns.pin()
    interpreter = Interpreter(model_path=str(folder / task.LITERT_FILE), num_threads=1)
    step = interpreter.get_signature_runner(task.LITERT_SIGNATURE)
    given, classes = task.read(folder), np.eye(task.CLASSES, dtype=np.float32)
    ready = [
        (np.ascontiguousarray(x.transpose(0, 2, 3, 1)), classes[y]) for x, y in map(given.batch, range(task.BATCHES))
    ]

    def train(batches: list[int]) -> float:
        for batch in batches:
            x, targets = ready[batch % task.BATCHES]
            loss = step(x=x, targets=targets)["loss"]
        return float(loss)

    turns.serve(version("ai-edge-litert"), train)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

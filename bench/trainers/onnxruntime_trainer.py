"""ONNX Runtime's process: python -m bench.trainers.onnxruntime_trainer FOLDER, after onnxruntime_artifacts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

from bench.trainers import task, turns
from bench.trainers.onnxruntime_package import without_torch


def main(folder: Path) -> None:
    turns.pin()
    without_torch()
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    state = CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    module = Module(str(folder / "training_model.onnx"), state, session_options=options)
    sgd = Optimizer(str(folder / "optimizer_model.onnx"), module)
    sgd.set_learning_rate(task.LEARNING_RATE)
    given = task.read(folder)
    ready = [(x, y.astype(np.int64)) for x, y in map(given.batch, range(task.BATCHES))]

    def train(batches: list[int]) -> float:
        for batch in batches:
            loss = module(*ready[batch % task.BATCHES])
            sgd.step()
            module.lazy_reset_grad()
        return float(loss)

    turns.serve(onnxruntime.__version__, train)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

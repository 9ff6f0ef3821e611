"""ExecuTorch's process: python -m bench.trainers.executorch_trainer FOLDER, after executorch_program.

A step is what the training extension of ExecuTorch's Python wheel offers: forward_backward of a program that has its
gradients, and a step of its SGD.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import torch
from executorch.extension.training import _load_for_executorch_for_training, get_sgd_optimizer

from bench.trainers import task, turns

METHOD = "forward"


def main(folder: Path) -> None:
    turns.pin()
    torch.set_num_threads(1)
    module = _load_for_executorch_for_training(str(folder / task.EXECUTORCH_FILE))
    given = task.read(folder)
    ready = [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in map(given.batch, range(task.BATCHES))]
    module.forward_backward(METHOD, ready[0])  # the parameters have names from then on, and are as before
    sgd = get_sgd_optimizer(module.named_parameters(), task.LEARNING_RATE)

    def train(batches: list[int]) -> float:
        for batch in batches:
            (loss,) = module.forward_backward(METHOD, ready[batch % task.BATCHES])
            sgd.step(module.named_gradients())
        return float(loss)

    turns.serve(version("executorch"), train)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Eager PyTorch's process: python -m bench.trainers.pytorch_trainer FOLDER. Batches are ready float32 tensors."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.nn import functional

from bench.trainers import task, turns
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import build
from edgefl.torch import to_torch


def main(folder: Path) -> None:
    turns.pin()
    torch.set_num_threads(1)
    given = task.read(folder)
    module = to_torch(Model(build("lenet5", task.SHAPE, task.CLASSES), given.weights))
    sgd = torch.optim.SGD(module.parameters(), lr=task.LEARNING_RATE)
    ready = [tuple(map(torch.from_numpy, given.batch(index))) for index in range(task.BATCHES)]

    def train(batches: list[int]) -> float:
        for batch in batches:
            x, y = ready[batch % task.BATCHES]
            sgd.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(module(x), y.long())
            loss.backward()
            sgd.step()
        return loss.item()

    turns.serve(torch.__version__, train)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

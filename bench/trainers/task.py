"""What every trainer is given: LeNet5's initial weights and a few batches, as files that numpy alone can read.

The examples are a black and white pattern a class under noise, so that a trainer that learns shows a falling loss
within a few steps. Nothing here imports edgefl: the trainers' processes read it, too, in environments that have numpy
only.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

BATCH = 16
BATCHES = 4
CLASSES = 26
SHAPE = (1, 28, 28)
SCALE, SHIFT = 2 / 255, -1.0
LEARNING_RATE = 0.05
SEED = 1
NOISE = 0.1  # of the pixels of an example are not its class's

Arrays = dict[str, np.ndarray]


class Task(NamedTuple):
    """weights: by torch's names and in its layouts. x: uint8 [BATCHES * BATCH, *SHAPE]. y: int32 [BATCHES * BATCH]."""

    weights: Arrays
    x: np.ndarray
    y: np.ndarray

    def batch(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """The scaled float32 examples and the labels of a batch; indices beyond the last begin anew."""
        rows = slice(index % BATCHES * BATCH, (index % BATCHES + 1) * BATCH)
        return self.x[rows].astype(np.float32) * np.float32(SCALE) + np.float32(SHIFT), self.y[rows]


def draw(weights: Arrays) -> Task:
    """Random examples for these weights: the same in every run."""
    values = np.random.RandomState(SEED)
    y = values.randint(0, CLASSES, BATCHES * BATCH).astype(np.int32)
    patterns = values.rand(CLASSES, *SHAPE) < 0.5
    turned = values.rand(len(y), *SHAPE) < NOISE
    return Task(weights, np.where(patterns[y] ^ turned, 255, 0).astype(np.uint8), y)


def write(task: Task, folder: Path) -> None:
    np.savez(folder / "weights.npz", **task.weights)
    np.savez(folder / "examples.npz", x=task.x, y=task.y)


def read(folder: Path) -> Task:
    with np.load(folder / "weights.npz") as weights, np.load(folder / "examples.npz") as examples:
        return Task(dict(weights), examples["x"], examples["y"])

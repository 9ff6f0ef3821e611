"""The input of every trainer: LeNet5's initial weights and a few batches, as files that numpy alone can read.

The examples of a class are a black and white pattern under noise, so that a trainer that learns shows a falling loss
within a few steps. Nothing here imports edgefl: the trainers' processes read this module, too, in environments that
have numpy only.
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
EXECUTORCH_FILE, LITERT_FILE, LITERT_SIGNATURE = "lenet5.pte", "lenet5.tflite", "train"  # made before a trainer reads
NOISE = 0.1  # share of the pixels of an example that differ from its class

Arrays = dict[str, np.ndarray]


class Task(NamedTuple):
    """Initial weights and examples. `weights` have torch's names and layouts.

    x is uint8 [BATCHES * BATCH, *SHAPE], and y is int32 [BATCHES * BATCH].
    """

    weights: Arrays
    x: np.ndarray
    y: np.ndarray

    def batch(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the scaled float32 examples and the labels of a batch. Indices beyond the last batch begin anew."""
        rows = slice(index % BATCHES * BATCH, (index % BATCHES + 1) * BATCH)
        return self.x[rows].astype(np.float32) * np.float32(SCALE) + np.float32(SHIFT), self.y[rows]


def draw(weights: Arrays) -> Task:
    """Draw random examples for these weights, which are equal in every run."""
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

"""The side of a counted process: python -m bench.arm.workload TRAINER MODEL BATCH KEEP FIRST MORE.

It trains a step, then FIRST steps, then FIRST + MORE. It asks the counting plugin for its count before and after each
of the last two, so that what is done once falls out of the difference. It also times the steps, which is meaningful
only on a real ARM machine. The last line of stdout is JSON. It runs on aarch64 with edgefl's device dependencies alone.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.runner import Contender
from edgefl.models.graph import Model
from edgefl.models.graph.model_files import load

MARK = 42424242  # the number that counter.c knows: it is not the policy of any scheduler
LEARNING_RATE = 1e-3
SEED = 1
SCALE, SHIFT = 2 / 255, -1.0


class Work(NamedTuple):
    """A model and a batch for it: x uint8 [B, ...], y int32 [B]. p is the share of neurons that are trained."""

    model: Model
    x: np.ndarray
    y: np.ndarray
    keep: float


def main(trainer: str, path: Path, batch: int, keep: float, first: int, more: int) -> None:
    version, run = importlib.import_module(f"bench.arm.{trainer}_steps").steps(_work(load(path), batch, keep))
    run(1)
    times = [_marked(run, repeats) for repeats in (first, first + more)]
    print(json.dumps({"version": version, "step_s": (times[1] - times[0]) / more}))


def _work(model: Model, batch: int, keep: float) -> Work:
    draw, graph = np.random.RandomState(SEED), model.graph
    (classes,) = graph.output_shape
    x = draw.randint(0, 256, (batch, *graph.input_shape)).astype(np.uint8)
    return Work(model, x, draw.randint(0, classes, batch).astype(np.int32), keep)


def _marked(run: Contender, repeats: int) -> float:
    """Run the repetitions between two marks, and return their processor time in seconds."""
    mark()
    begin_s = time.process_time()
    run(repeats)
    spent_s = time.process_time() - begin_s
    mark()
    return spent_s


def mark() -> None:
    """Ask the plugin for the count. Without the plugin this is a system call that fails."""
    with suppress(OSError):
        os.sched_get_priority_min(MARK)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))

"""Resident memory of a process that trains one model, as the kernel reports it: one fresh process per row, no torch.

`python -m bench memory` runs `python -m bench.memory MODEL BATCH KEEP` for each row; this file is both ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgefl.graph import Model
from edgefl.learners import SGD, GraphLearner, Samples
from edgefl.models import build
from edgefl.rng import INIT, NEURONS, stream
from edgefl.selection import NeuronSet
from edgefl.spec import ModelSpec

MB = 1e6
SHAPES = {"fedspu_cifar": ((3, 32, 32), 10), "fedspu_emnist": ((1, 28, 28), 62), "fedspu_speech": ((1, 32, 32), 35)}
CASES = (("fedspu_cifar", 16), ("fedspu_cifar", 128), ("fedspu_emnist", 16), ("fedspu_speech", 16))
KEEPS = (1.0, 0.2)
SAMPLES = 500  # uint8 images held by the process, as on a device
STEPS = 200

Row = dict[str, str | int | float]


def measure() -> Iterator[Row]:
    """A row per model, batch and share of active neurons."""
    for model, batch in CASES:
        for keep in KEEPS:
            command = [sys.executable, "-m", "bench.memory", model, str(batch), str(keep)]
            yield json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def train(model: str, batch: int, keep: float) -> Row:
    """Trains for STEPS steps in this process; what it then holds, in units of 1e6 bytes.

    peak_mb     largest resident set of the process so far
    import_mb   resident set before the model and the data existed
    """
    before = resident("VmRSS")
    shape, classes = SHAPES[model]
    graph = build(model, shape, classes)
    values = np.random.RandomState(1)
    images, labels = values.randint(0, 256, (SAMPLES, *shape), np.uint8), values.randint(0, classes, SAMPLES, np.int32)
    data = Samples(images, labels, scale=1 / 255)
    learner = GraphLearner(Model(graph, graph.init(stream(1, INIT))))
    neurons = NeuronSet.draw(ModelSpec.of(graph), keep, stream(1, NEURONS))
    batches = [values.randint(0, SAMPLES, batch, np.int32) for _ in range(STEPS)]
    learner.fit(data, batches, SGD(0.01), trainable=neurons)
    sizes = {"model": model, "batch": batch, "keep": keep}
    return sizes | {"import_mb": before / MB, "resident_mb": resident("VmRSS") / MB, "peak_mb": resident("VmHWM") / MB}


def resident(field: str) -> int:
    """Bytes that Linux counts for this process: VmRSS now, VmHWM at most so far. Raises OSError elsewhere."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}; expected Linux")


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))

"""A process without torch that trains a model file within a limit, and prints its memory and seconds as JSON.

`python -m bench.adapters.held FILE CASE LIMIT STEPS`, where LIMIT is the bytes beside the parameters, or 0.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from edgefl.kernels import native
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.losses import CrossEntropy
from edgefl.models.graph import model_files
from edgefl.study.memory_meter import resident_bytes


def main() -> None:
    file, case, limit, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    native.set_threads(1)
    data = samples(case)
    before = resident_bytes("VmRSS")
    model = model_files.load(Path(file))
    base = sum(value.nbytes for value in model.params.values())
    learner = GraphLearner(model, limit_bytes=base + limit if limit else None)
    del model
    rows, spent = np.arange(len(data), dtype=np.int32), []
    for _ in range(steps + 1):
        begun = time.process_time()
        learner.fit(data, [rows], SGD(0.01))
        spent.append(time.process_time() - begun)
    found = {"base": base, "interpreter": before, "resident": resident_bytes("VmRSS"), "held": learner.memory()}
    digest = hashlib.sha256()
    for value in learner.read().values():
        digest.update(np.ascontiguousarray(value))
    found |= {"seconds": median(spent[1:]), "digest": digest.hexdigest()[:16]}
    print(json.dumps(found))


def samples(case: str) -> Samples:
    """Return one batch of noise: ids for gpt2, pictures for mobilenet."""
    chance = np.random.default_rng(0)
    if case == "gpt2":
        x, y = (chance.integers(0, 50257, (4, 64)) for _ in range(2))
        return Samples(x.astype(np.float32), y.astype(np.int32), loss=CrossEntropy())
    return Samples(chance.normal(size=(8, 3, 224, 224)).astype(np.float32), chance.integers(0, 10, 8).astype(np.int32))


if __name__ == "__main__":
    main()

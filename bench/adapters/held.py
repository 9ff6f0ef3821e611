"""Processes without torch that train a model file within limits. They print JSON.

`python -m bench.adapters.held FILE CASE STEPS LIMIT:PART` prints the memory of one learner, and a digest of its
parameters. With several limits it prints the median seconds of a step within each. These learners take turns. A limit
is the bytes beside the parameters, or 0 for no limit. PART is the most examples that pass at once, or 0 for all.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from edgefl.kernels import native
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.losses import CrossEntropy
from edgefl.models.graph import model_files
from edgefl.study.memory_meter import resident_bytes

WORDS = {"gpt2": (50257, 4), "gemma": (262144, 8)}  # words and examples of a batch


def main() -> None:
    """Print what the arguments ask for."""
    file, case, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    limits = [tuple(map(int, each.split(":"))) for each in sys.argv[4:]]
    native.set_threads(1)
    print(json.dumps(memory(file, case, steps, *limits[0]) if len(limits) == 1 else seconds(file, case, steps, limits)))


def seconds(file: str, case: str, steps: int, limits: Sequence[tuple[int, ...]]) -> list[float]:
    """Return the median processor seconds of a step within each limit."""
    data, model = samples(case), model_files.load(Path(file))
    base, rows = sum(value.nbytes for value in model.params.values()), np.arange(len(data), dtype=np.int32)
    learners = [GraphLearner(model, limit_bytes=base + limit if limit else None) for limit, _ in limits]
    spent: list[list[float]] = [[] for _ in learners]
    for _ in range(steps + 1):
        for learner, (_, part), each in zip(learners, limits, spent, strict=True):
            begun = time.process_time()
            learner.fit(data, [rows], SGD(0.01, micro_batch=part))
            each.append(time.process_time() - begun)
    return [median(each[1:]) for each in spent]


def memory(file: str, case: str, steps: int, limit: int, part: int) -> dict[str, object]:
    """Return the bytes of parameters, of the process before there was a model, of the process now, and of the learner
    by purpose.
    """
    data = samples(case)
    before = resident_bytes("VmRSS")
    model = model_files.load(Path(file))
    base, loaded = sum(value.nbytes for value in model.params.values()), resident_bytes("VmHWM")
    learner = GraphLearner(model, limit_bytes=base + limit if limit else None)
    del model
    spent = []
    for _ in range(steps):
        begun = time.process_time()
        learner.fit(data, [np.arange(len(data), dtype=np.int32)], SGD(0.01, micro_batch=part))
        spent.append(time.process_time() - begun)
    found = {"base": base, "interpreter": before, "resident": resident_bytes("VmRSS"), "held": learner.memory()}
    found |= {"loaded": loaded, "seconds": median(spent)}
    digest = hashlib.sha256()
    for value in learner.read().values():
        digest.update(np.ascontiguousarray(value))
    return {**found, "digest": digest.hexdigest()[:16]}


def samples(case: str) -> Samples:
    """Return one batch of noise: ids for gpt2 and gemma, pictures for mobilenet."""
    chance = np.random.default_rng(0)
    if case in WORDS:
        words, batch = WORDS[case]
        x, y = (chance.integers(0, words, (batch, 64)) for _ in range(2))
        return Samples(x.astype(np.float32), y.astype(np.int32), loss=CrossEntropy())
    return Samples(chance.normal(size=(8, 3, 224, 224)).astype(np.float32), chance.integers(0, 10, 8).astype(np.int32))


if __name__ == "__main__":
    main()

"""The side of a trainer's process: it trains when it is told to, and answers with its processor time and loss.

A line of stdin is a JSON list of batches to train on in turn. The answer is a JSON line with the loss of the last batch
or a mean, the processor time of the whole process and its resident memory. Answers go to the file descriptor that the
environment names, as libraries print to stdout. The process stays on one processor.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

ANSWERS = "EDGEFL_BENCH_ANSWERS"
Train = Callable[[list[int]], float]


def serve(version: str, train: Train) -> None:
    """Say the version, then answer until stdin ends. `train` takes a step for each batch and returns a loss."""
    with os.fdopen(int(os.environ[ANSWERS]), "w", buffering=1) as answers:
        print(json.dumps({"version": version}), file=answers)
        for line in sys.stdin:
            batches = json.loads(line)
            begin_s = time.process_time()
            loss = float(train(batches))
            spent_s = time.process_time() - begin_s
            print(json.dumps({"loss": loss, "cpu_s": spent_s, "resident_bytes": _resident_bytes()}), file=answers)


def pin() -> None:
    """Keep this process, and the threads that it will start, on one processor, which is the same for every trainer."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

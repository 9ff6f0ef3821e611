"""The rate of one large product, native and torch.mm, as a yardstick for the other figures of this machine.

The faster rate is a lower bound of the hardware's peak. It is not a claim about the peak itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from bench import machine
from bench.runner import Contender, Effort, clock_for, interleave
from edgefl.kernels import native

BATCH, IN_FEATURES, OUT_FEATURES = 192, 256, 192  # operands fit into a 512 KB L2
PATHS = ("native", "torch")
FLOP = 2 * BATCH * IN_FEATURES * OUT_FEATURES


def measure(threads: Sequence[int], effort: Effort) -> list[dict[str, float]]:
    """Return for each number of threads the GFLOP/s of native linear_forward and of torch.mm on the same operands."""
    results = []
    for count in threads:
        machine.use_threads(count)
        timings = interleave({path: contender(path) for path in PATHS}, effort, clock_for(count))
        rates = {f"{name}_gflops": FLOP / timing.median_s / 1e9 for name, timing in timings.items()}
        results.append({"threads": count} | rates)
    return results


def contender(path: str) -> Contender:
    """Return the product of edgefl or that of torch.mm, of FLOP operations each, by one of PATHS."""
    values = np.random.RandomState(1)
    x = values.standard_normal((BATCH, IN_FEATURES)).astype(np.float32)
    weight = values.standard_normal((OUT_FEATURES, IN_FEATURES)).astype(np.float32)
    y = np.empty((BATCH, OUT_FEATURES), np.float32)
    left, right, out = torch.from_numpy(x), torch.from_numpy(weight).t(), torch.empty(BATCH, OUT_FEATURES)

    def run_native(repeats: int) -> None:
        for _ in range(repeats):
            native.linear_forward(x, weight, None, y)

    def run_torch(repeats: int) -> None:
        for _ in range(repeats):
            torch.mm(left, right, out=out)

    return run_native if path == "native" else run_torch

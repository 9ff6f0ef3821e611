"""Eager PyTorch's steps on a ready float32 batch, with every parameter trained."""

from __future__ import annotations

import torch
from torch.nn import functional

from bench.arm.workload import LEARNING_RATE, SCALE, SHIFT, Work
from bench.runner import Contender
from edgefl.torch import to_torch


def steps(work: Work) -> tuple[str, Contender]:
    """Return the version, and steps on the batch."""
    torch.set_num_threads(1)
    module = to_torch(work.model)
    sgd = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    x, y = torch.from_numpy(work.x).float() * SCALE + SHIFT, torch.from_numpy(work.y).long()

    def run(repeats: int) -> None:
        for _ in range(repeats):
            sgd.zero_grad(set_to_none=True)
            functional.cross_entropy(module(x), y).backward()
            sgd.step()

    return torch.__version__, run

"""Modules that tests of from_torch trace: examples, and a module whose forward is one line of the test."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def example(*shape: int, seed: int = 3) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Forward(nn.Module):
    """A module whose forward is given: `step(self, x)`, with `layers` as submodules."""

    def __init__(self, step, **layers: nn.Module) -> None:
        super().__init__()
        self.step = step
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self, x)

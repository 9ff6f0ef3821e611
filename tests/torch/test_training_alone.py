"""Factors and noise that forward has in training alone, or in both modes, as operations of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgefl.learning import GraphLearner
from edgefl.models.graph.operations import GaussianNoise, Scaler
from edgefl.torch import from_torch

X = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))


class Layers(nn.Module):
    """Three Linear layers, which a function calls."""

    def __init__(self, step: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.c, self.step = nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(4, 3), step

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self, x)


def reparametrised(m: Any, x: Tensor) -> Tensor:
    mean, spread = m.a(x), m.b(x)
    return m.c(mean + torch.randn_like(mean) * torch.exp(0.5 * spread) if m.training else mean)


STEPS: dict[str, tuple[Callable[[Any, Tensor], Tensor], list[Any]]] = {
    "noise of a variational autoencoder": (reparametrised, [GaussianNoise(False)]),
    "noise in both modes": (lambda m, x: m.c(m.a(x) + torch.randn_like(m.b(x))), [GaussianNoise(True)]),
    "noise of inputs": (lambda m, x: m.c(m.a(x + torch.randn_like(x) if m.training else x)), [GaussianNoise(False)]),
    "a factor": (lambda m, x: m.c(m.a(x) / (0.25 if m.training else 1)), [Scaler(4.0)]),
    "factors twice": (lambda m, x: m.c((m.a(x / 2 if m.training else x) * 3) * (3 if m.training else 1)),
                      [Scaler(0.5), Scaler(3.0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_what_training_alone_has_is_taken(name: str) -> None:
    step, expected = STEPS[name]
    module = Layers(step)
    model = from_torch(module, X)
    assert [node.op for node in model.graph.nodes if isinstance(node.op, Scaler | GaussianNoise)] == expected
    if GaussianNoise(True) not in expected:
        with torch.no_grad():
            found = GraphLearner(model).predict(X.numpy())
            np.testing.assert_allclose(found, module.eval()(X).numpy(), atol=2e-6)

"""Scaler and GaussianNoise as torch modules, for the module of a graph."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl import kernels
from edgefl.learning.lowering.training_alone import ANGLES
from edgefl.models.graph.operations import GaussianNoise, Scaler


class TrainingScaler(nn.Module):
    """The product of its input and a number in training, and the input itself in evaluation."""

    def __init__(self, op: Scaler) -> None:
        super().__init__()
        self.factor = op.factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor if self.training else x

    def extra_repr(self) -> str:
        return f"{self.factor}"


class Noise(nn.Module):
    """Standard normal numbers [batch, channels, ...] by torch's generator, or by edgefl's stream once `state` is set.

    number  number of the node in the graph
    state   int64 [3] = key, step, first sample
    """

    def __init__(self, op: GaussianNoise) -> None:
        super().__init__()
        self.in_evaluation, self.number = op.in_evaluation, 0
        self.state: NDArray[np.int64] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and not self.in_evaluation:
            return torch.zeros_like(x)
        if not self.training or self.state is None:
            return torch.randn_like(x)
        return normal(tuple(x.shape), self.state, self.number).to(x)

    def extra_repr(self) -> str:
        return f"in_evaluation={self.in_evaluation}"


def normal(shape: tuple[int, ...], state: NDArray[np.int64], number: int) -> Tensor:
    """Return the normal numbers of a node by edgefl's stream."""
    uniform = [np.empty(shape, np.float32) for _ in range(2)]
    for values, node in zip(uniform, (number, number + ANGLES), strict=True):
        kernels.backend().uniform(values, state, node)
    lengths, angles = (torch.from_numpy(values).double() for values in uniform)
    return torch.sqrt(-2 * torch.log(lengths)) * torch.cos(2 * torch.pi * angles)

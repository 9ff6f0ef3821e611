"""PyTorch's side: `python -m bench.simulators.torch_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS SEED`, a bare loop.

The loop has what a careful user writes: one model for all clients, samples as one tensor, sums of parameters in place
and one thread. It writes no journal, checks no reply and resumes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench.simulators.task import BATCH, RATE, Rounds, Shape, asked, drawn, first_values, tell


def model_of(name: str) -> nn.Module:
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))
    body = [nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))


@dataclass
class Batches:
    """The shuffled batches of one client, once through, for simulators that ask for a loader."""

    x: Tensor
    y: Tensor
    generator: torch.Generator

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(self.y), generator=self.generator).split(BATCH):
            yield self.x[rows], self.y[rows]


def train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Take one epoch of plain SGD over the samples of a client."""
    parameters = list(model.parameters())
    for rows in torch.randperm(len(y)).split(BATCH):
        loss = cross_entropy(model(x[rows]), y[rows])
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-RATE)


def one_round(model: nn.Module, shape: Shape, x: Tensor, y: Tensor, clients: Sequence[int]) -> None:
    """Train these clients one after another, and put the mean of their models into the model."""
    parameters = list(model.parameters())
    before = [each.detach().clone() for each in parameters]
    sums = [torch.zeros_like(each) for each in before]
    for client in clients:
        own = shape.trained(client)
        with torch.no_grad():
            torch._foreach_copy_(parameters, before)
        train(model, x[own], y[own])
        with torch.no_grad():
            torch._foreach_add_(sums, [each.detach() for each in parameters])
    with torch.no_grad():
        torch._foreach_copy_(parameters, torch._foreach_div(sums, len(clients)))


@torch.no_grad()
def accuracy(model: nn.Module, shape: Shape, x: Tensor, y: Tensor) -> float:
    tested = torch.arange(len(y)) % shape.images >= shape.images - shape.tests
    return float((model(x[tested]).argmax(1) == y[tested]).float().mean())


def prepared(file: Path, name: str, seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Return the model with the values with which all sides begin, the images and the labels, for one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    with np.load(file) as content:
        x = torch.from_numpy(content["x"]).float() / 255
        y = torch.from_numpy(content["y"]).long()
    model = model_of(name)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), first_values(file, name), strict=True):
            parameter.copy_(torch.from_numpy(value))
    return model, x, y


def main(arguments: list[str]) -> None:
    file, shape, name, _, seed = asked(arguments)
    model, x, y = prepared(file, name, seed)
    watch = Rounds(shape)
    for clients in drawn(file):
        one_round(model, shape, x, y, clients)
        watch.ended()
    tell(watch.result(accuracy(model, shape, x, y)))


if __name__ == "__main__":
    main(sys.argv[1:])

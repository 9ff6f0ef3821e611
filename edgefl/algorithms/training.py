"""The hyper-parameters of plain local SGD and of who is selected, shared by methods that train a whole model.

Not a method: it has none of the five verbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgefl.algorithms.base import Algorithm, Local, check, check_choices, check_sgd, minibatches, passes
from edgefl.graph import Graph, Params
from edgefl.learners.base import SGD, Array, Batches
from edgefl.neurons.cost import flops
from edgefl.neurons.spec import ModelSpec


@dataclass(frozen=True)
class LocalTraining(Algorithm):
    """per_round   clients selected in a round
    epochs      passes over the client's training samples; velocities start at zero in every round
    lr          learning rate of round 1
    lr_decay    round t has the rate lr * lr_decay^(t - 1)
    clip        largest gradient norm; 0: none
    """

    per_round: int = 10
    epochs: int = 5
    batch: int = 16
    lr: float = 0.05
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0

    def __post_init__(self) -> None:
        check_sgd(self.per_round, self.epochs, self.batch, self.lr)
        check(0 < self.lr_decay <= 1, "lr_decay", self.lr_decay, "0 < lr_decay <= 1")
        SGD(self.lr, self.momentum, self.weight_decay, self.clip)  # checks what it gets
        check_choices(self)

    def rate(self, round: int) -> float:
        """The learning rate of a round, numbered from 1."""
        return self.lr * self.lr_decay ** (round - 1)

    def sgd(self, round: int) -> SGD:
        """The steps of a round."""
        return SGD(self.rate(round), self.momentum, self.weight_decay, self.clip or None)

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.epochs, self.batch)

    def steps(self, examples: int) -> int:
        return self.effort(examples)[0]

    def flops(self, graph: Graph, examples: int) -> float | None:
        return flops(graph, {}, self.effort(examples)[1])

    def batches(self, local: Local, round: int) -> Batches:
        """A client's batches of a round."""
        return minibatches(local, round, self.epochs, self.batch)


def learnable(params: Mapping[str, Array], spec: ModelSpec) -> Params:
    """A copy of the parameters without running statistics."""
    return {name: params[name].copy() for name, param in spec.params.items() if param.kind == "learn"}


def zeros(params: Mapping[str, Array]) -> Params:
    """Zeros of the same names, shapes and types."""
    return {name: np.zeros_like(value) for name, value in params.items()}

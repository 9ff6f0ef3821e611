"""The hyper-parameters of local steps and of who is selected, shared by methods that train a model.

Not a method: it has none of the five verbs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from edgefl.algorithms.base import (
    MODEL,
    Algorithm,
    Local,
    OwnModel,
    Plan,
    check,
    check_choices,
    check_sgd,
    minibatches,
    passes,
)
from edgefl.algorithms.schedule import Kind, Schedule
from edgefl.graph import Graph, Params
from edgefl.learners.base import Array, Batches
from edgefl.learners.optimizers import SGD, Adam, AdamW, Optimizer, Saved
from edgefl.neurons.cost import flops
from edgefl.neurons.spec import ModelSpec

UNCOUNTED = 0  # a round of the draw of batches that no round of training has: what is done for an evaluation alone


@dataclass(frozen=True)
class LocalSteps(Algorithm):
    """How a client steps in a round, whatever of the model it trains. The optimizer starts anew in every round.

    lr            learning rate that the schedule starts from
    optimizer     'sgd', 'adam' or 'adamw', as torch's
    momentum      of sgd; with nesterov in Nesterov's way
    betas, eps    of adam and adamw
    weight_decay  as torch's; of adamw too, whose default there is 0.01
    clip          largest gradient norm; 0: none
    schedule      of the rate over rounds (schedule.py): 'exponential', lr * lr_decay^(t - 1), 'step', by lr_decay every
                  decay_every rounds, 'cosine' down to lr_floor after the last round, or 'constant'
    warmup        rounds before, in which the rate rises to lr
    rounds        of the whole run, which a cosine needs; the run's own are taken
    saved         as what values wait for the backward pass: 'fp32', or 'fp16' where that takes less memory
    """

    lr: float = 0.05
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    nesterov: bool = False
    betas: tuple[float, ...] = (0.9, 0.999)
    eps: float = 1e-8
    schedule: Kind = "exponential"
    decay_every: int = 1
    lr_floor: float = 0.0
    warmup: int = 0
    rounds: int = 0
    saved: Saved = "fp32"

    def _check_steps(self) -> None:
        """Raises ValueError for a value that is out of range, or that the chosen optimizer does not have."""
        check(0 < self.lr < float("inf"), "lr", self.lr, "a finite lr > 0")
        check(0 < self.lr_decay <= 1, "lr_decay", self.lr_decay, "0 < lr_decay <= 1")
        check(self.decay_every >= 1, "decay_every", self.decay_every, "decay_every >= 1")
        check(0 <= self.lr_floor <= self.lr, "lr_floor", self.lr_floor, f"0 <= lr_floor <= lr={self.lr}")
        check(self.warmup >= 0, "warmup", self.warmup, "warmup >= 0")
        check(self.schedule != "cosine" or self.rounds > self.warmup, "rounds", self.rounds,
              f"more than the {self.warmup} of the warm-up, over which a cosine falls")  # fmt: skip
        check(self.optimizer == "sgd" or not (self.momentum or self.nesterov), "optimizer", self.optimizer,
              "sgd with momentum; adam and adamw have betas")  # fmt: skip
        check_choices(self)
        self.optimizer_at(self.lr)  # checks what it gets

    @property
    def needs_rounds(self) -> bool:
        return self.schedule == "cosine"

    def rate(self, round: int) -> float:
        """The learning rate of a round, numbered from 1."""
        settings = self.schedule, self.lr_decay, self.decay_every, self.lr_floor, self.warmup, self.rounds
        return Schedule(self.lr, *settings).rate(round)

    def local_optimizer(self, round: int) -> Optimizer:
        """The steps of a round."""
        return self.optimizer_at(self.rate(round))

    def refit(self, mine: OwnModel, local: Local, epochs: int, batch: int, rate: float = 0.0, **how: Any) -> OwnModel:
        """A client's model after so many passes that count for no round, in the same order each time.

        rate  learning rate; 0: `lr`, which does not decay here
        how   what else `fit` is given
        """
        batches = minibatches(local, UNCOUNTED, epochs, batch)
        mine.learner.fit(mine.samples, batches, self.optimizer_at(rate or self.lr), **how)
        return mine

    def optimizer_at(self, rate: float) -> Optimizer:
        """The steps at this rate."""
        clip = self.clip or None
        if self.optimizer == "sgd":
            return SGD(rate, self.momentum, self.weight_decay, clip, self.nesterov, self.saved)
        kind = Adam if self.optimizer == "adam" else AdamW
        return kind(rate, tuple(self.betas), self.eps, self.weight_decay, clip, self.saved)  # type: ignore[arg-type]


@dataclass(frozen=True)
class LocalTraining(LocalSteps):
    """per_round   clients selected in a round
    epochs      passes over the client's training samples
    """

    per_round: int = 10
    epochs: int = 5
    batch: int = 16

    def __post_init__(self) -> None:
        check_sgd(self.per_round, self.epochs, self.batch, self.lr)
        self._check_steps()

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.epochs, self.batch)

    def steps(self, examples: int) -> int:
        return self.effort(examples)[0]

    def flops(self, graph: Graph, examples: int) -> float | None:
        return flops(graph, {}, self.effort(examples)[1])

    @contextmanager
    def refreshed(self, local: Local, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        if MODEL in plan.payload:
            local.learner.write(plan.payload[MODEL])
        yield self.refit(OwnModel(local.learner, local.data), local, epochs, self.batch)

    def batches(self, local: Local, round: int) -> Batches:
        """A client's batches of a round."""
        return minibatches(local, round, self.epochs, self.batch)


def learnable(params: Mapping[str, Array], spec: ModelSpec) -> Params:
    """A copy of the parameters without running statistics."""
    return {name: params[name].copy() for name, param in spec.params.items() if param.kind == "learn"}


def zeros(params: Mapping[str, Array]) -> Params:
    """Zeros of the same names, shapes and types."""
    return {name: np.zeros_like(value) for name, value in params.items()}

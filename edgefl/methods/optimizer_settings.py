"""The hyper-parameters of an optimizer and of its rate over rounds, whatever is trained and whatever the rate is
called.

This module is not a method: it has none of the five verbs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from edgefl.learning.optimizers import SGD, Adam, AdamW, Optimizer
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.learning_rate import Kind, LearningRateSchedule
from edgefl.methods.option_checks import check, check_choices


@dataclass(frozen=True)
class OptimizerSettings(Algorithm):
    """The steps of a client in a round. The optimizer starts anew in every round: its memory is neither kept nor sent.

    optimizer     'sgd', 'adam' or 'adamw', as in torch
    momentum      momentum of sgd, which is Nesterov's with `nesterov`
    betas, eps    settings of adam and adamw
    weight_decay  as in torch. It also applies to adamw, where the default in torch is 0.01
    clip          largest gradient norm. 0: no clipping
    schedule      schedule of a rate over rounds (learning_rate.py): 'exponential', by lr_decay^(t - 1), 'step', by
                  lr_decay every decay_every rounds, 'cosine' down to lr_floor after the last round, or 'constant'
    warmup        number of first rounds, in which a rate rises to its setting
    rounds        rounds of the whole run, which a cosine needs. It is set from the run's own number of rounds
    """

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

    def _check_steps(self, *rates: str) -> None:
        """Raise ValueError for a value that is out of range, or that the chosen optimizer does not have.

        rates  the fields that have a schedule
        """
        lowest = min(rates, key=lambda name: float(getattr(self, name)))
        check(0 < self.lr_decay <= 1, "lr_decay", self.lr_decay, "0 < lr_decay <= 1")
        check(self.decay_every >= 1, "decay_every", self.decay_every, "decay_every >= 1")
        check(0 <= self.lr_floor <= getattr(self, lowest), "lr_floor", self.lr_floor,
              f"0 <= lr_floor <= {lowest}={getattr(self, lowest)}")  # fmt: skip
        check(self.warmup >= 0, "warmup", self.warmup, "warmup >= 0")
        check(self.schedule != "cosine" or self.rounds > self.warmup, "rounds", self.rounds,
              f"more than the {self.warmup} of the warm-up, over which a cosine falls")  # fmt: skip
        check(self.optimizer == "sgd" or not (self.momentum or self.nesterov), "optimizer", self.optimizer,
              "sgd with momentum; adam and adamw have betas")  # fmt: skip
        check_choices(self)
        self.optimizer_at(getattr(self, lowest))  # the optimizer checks its settings

    @property
    def needs_rounds(self) -> bool:
        return self.schedule == "cosine"

    def scheduled(self, rate: float, round: int) -> float:
        """Return the value of this rate in a round, numbered from 1."""
        settings = self.schedule, self.lr_decay, self.decay_every, self.lr_floor, self.warmup, self.rounds
        return LearningRateSchedule(rate, *settings).rate(round)

    def optimizer_at(self, rate: float) -> Optimizer:
        """Return the optimizer of steps at this rate."""
        clip = self.clip or None
        if self.optimizer == "sgd":
            return _sgd(rate, self.momentum, self.weight_decay, clip, self.nesterov)
        kind = Adam if self.optimizer == "adam" else AdamW
        return kind(rate, tuple(self.betas), self.eps, self.weight_decay, clip)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _sgd(rate: float, momentum: float, weight_decay: float, clip: float | None, nesterov: bool) -> SGD:
    """Return these settings. The clients of a round share them, so they are checked once."""
    return SGD(rate, momentum, weight_decay, clip, nesterov)

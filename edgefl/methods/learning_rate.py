"""The learning rate over the rounds of a run: constant, falling by a factor, or along a cosine, after a warm-up.

The rate is a function of settings and the round's number, so that the server, a device, a resumed run and a replay have
equal rates. Within a round the rate does not change.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

Kind = Literal["exponential", "step", "cosine", "constant"]


class LearningRateSchedule(NamedTuple):
    """The schedule of a learning rate. The first round has the number 1.

    lr      learning rate at the start of the schedule
    kind    'exponential': lr * decay^(t - 1). 'step': lr * decay^((t - 1) // every). 'cosine': from lr in round 1
            towards `floor` after the last of `rounds`. 'constant': lr. After a warm-up t counts from its end
    decay   factor of 'exponential' and 'step'
    every   rounds between two steps of 'step'
    floor   least rate of 'cosine'
    warmup  number of warm-up rounds. In warm-up round t the rate is lr * t / (warmup + 1)
    rounds  number of rounds of the whole run, for 'cosine'
    Source  the cosine: Loshchilov and Hutter, SGDR (ICLR 2017), without restarts
    """

    lr: float
    kind: Kind = "exponential"
    decay: float = 1.0
    every: int = 1
    floor: float = 0.0
    warmup: int = 0
    rounds: int = 0

    def rate(self, round: int) -> float:
        """Return the learning rate of a round."""
        if round <= self.warmup:
            return self.lr * round / (self.warmup + 1)
        passed = round - self.warmup - 1
        if self.kind == "cosine":
            share = min(passed / max(self.rounds - self.warmup, 1), 1.0)
            return self.floor + (self.lr - self.floor) * (1 + math.cos(math.pi * share)) / 2
        return self.lr * self.decay ** {"exponential": passed, "step": passed // self.every, "constant": 0}[self.kind]

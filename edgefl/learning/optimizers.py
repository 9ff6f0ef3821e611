"""The settings of SGD, Adam and AdamW, as values. The kernels compute the steps.

All three start anew in every call of `fit`: velocities and moments are zero, and Adam counts its steps from 1.
Velocities and moments exist only for the coordinates that are trained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

SMALLEST_EPS = 1e-30  # smallest eps of Adam, which float32 holds
Saved = Literal["fp32", "fp16"]
"""The number format of values that wait for the backward pass.

fp32 keeps them as they are, and fp16 keeps them as float16 where this takes less memory.
"""


@dataclass(frozen=True)
class SGD:
    """The settings of torch.optim.SGD with dampening 0.

    lr            learning rate
    momentum      momentum, from 0 to below 1
    weight_decay  factor of the weights that is added to their gradient
    clip          largest norm of the gradient. None does not clip
    nesterov      whether the momentum is Nesterov's
    saved         number format of the values that wait for the backward pass
    micro_batch   most examples that pass through the model at once. Gradients of several parts of a batch are summed
                  before the step. 0 passes whole batches

    The norm is taken over the gradients of the trained blocks together, as torch.nn.utils.clip_grad_norm_ does.

    Raises  ValueError if a value is negative or not finite, momentum is not below 1, or nesterov has no momentum
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    nesterov: bool = False
    saved: Saved = "fp32"
    micro_batch: int = 0

    def __post_init__(self) -> None:
        _check_saved(self.saved)
        _check_micro_batch(self.micro_batch)
        for name in ("lr", "momentum", "weight_decay", "clip"):
            _check_finite(name, getattr(self, name))
        if self.momentum >= 1:
            raise ValueError(f"momentum={self.momentum}; expected 0 <= momentum < 1")
        if self.nesterov and not self.momentum:
            raise ValueError(f"nesterov with momentum={self.momentum}; expected 0 < momentum < 1")


@dataclass(frozen=True)
class Adam:
    """The settings of torch.optim.Adam without amsgrad, where weight_decay is a term of the gradient.

    `clip`, `saved` and `micro_batch` have the meaning that they have in SGD.

    Raises  ValueError if a value is negative or not finite, a beta is not below 1, or eps is below 1e-30
    """

    decoupled: ClassVar[bool] = False

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    saved: Saved = "fp32"
    micro_batch: int = 0

    def __post_init__(self) -> None:
        _check_saved(self.saved)
        _check_micro_batch(self.micro_batch)
        for name in ("lr", "weight_decay", "clip"):
            _check_finite(name, getattr(self, name))
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas}; expected two numbers, each 0 <= beta < 1")
        if not SMALLEST_EPS <= self.eps < math.inf:
            raise ValueError(f"eps={self.eps}; expected a finite eps >= {SMALLEST_EPS:g}")


@dataclass(frozen=True)
class AdamW(Adam):
    """The settings of torch.optim.AdamW. In a step the weights themselves decay by lr * weight_decay of
    their values.
    """

    decoupled: ClassVar[bool] = True

    weight_decay: float = 0.01


Optimizer = SGD | Adam


def _check_finite(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < math.inf:
        raise ValueError(f"{name}={value}; expected a finite value >= 0")


def _check_saved(saved: str) -> None:
    if saved not in get_args(Saved):
        raise ValueError(f"saved={saved}; expected one of {', '.join(get_args(Saved))}")


def _check_micro_batch(count: int) -> None:
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"micro_batch={count}; expected a number of examples, or 0 for whole batches")

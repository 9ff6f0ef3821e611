"""The settings of SGD, Adam and AdamW, as values. The arithmetic of their steps is the kernels'.

All three start anew in every call of `fit`: velocities and moments are zero, and Adam's steps count from 1. They exist
for the coordinates that are trained, and for no others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

SMALLEST_EPS = 1e-30  # float32 holds it
Saved = Literal["fp32", "fp16"]
"""As what values wait for the backward pass: as they are, or as float16 where that takes less memory."""


@dataclass(frozen=True)
class SGD:
    """Settings of torch.optim.SGD (dampening 0); `clip`: the largest gradient norm, or None; and `saved`.

    The norm is taken over the gradients of the trained blocks together, as torch.nn.utils.clip_grad_norm_ does.
    Raises  ValueError if a value is negative or not finite, momentum is not below 1, or Nesterov's way has none.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    nesterov: bool = False
    saved: Saved = "fp32"

    def __post_init__(self) -> None:
        _check_saved(self.saved)
        for name in ("lr", "momentum", "weight_decay", "clip"):
            _check_finite(name, getattr(self, name))
        if self.momentum >= 1:
            raise ValueError(f"momentum={self.momentum}; expected 0 <= momentum < 1")
        if self.nesterov and not self.momentum:
            raise ValueError(f"nesterov with momentum={self.momentum}; expected 0 < momentum < 1")


@dataclass(frozen=True)
class Adam:
    """Settings of torch.optim.Adam without amsgrad; weight_decay is a term of the gradient.

    clip and saved are as of SGD.

    Raises  ValueError if a value is negative or not finite, a beta is not below 1, or eps is below 1e-30.
    """

    decoupled: ClassVar[bool] = False

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = None
    saved: Saved = "fp32"

    def __post_init__(self) -> None:
        _check_saved(self.saved)
        for name in ("lr", "weight_decay", "clip"):
            _check_finite(name, getattr(self, name))
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas={self.betas}; expected two numbers, each 0 <= beta < 1")
        if not SMALLEST_EPS <= self.eps < math.inf:
            raise ValueError(f"eps={self.eps}; expected a finite eps >= {SMALLEST_EPS:g}")


@dataclass(frozen=True)
class AdamW(Adam):
    """Settings of torch.optim.AdamW: the weights themselves decay, by lr weight_decay of them in a step."""

    decoupled: ClassVar[bool] = True

    weight_decay: float = 0.01


Optimizer = SGD | Adam


def _check_finite(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < math.inf:
        raise ValueError(f"{name}={value}; expected a finite value >= 0")


def _check_saved(saved: str) -> None:
    if saved not in get_args(Saved):
        raise ValueError(f"saved={saved}; expected one of {', '.join(get_args(Saved))}")

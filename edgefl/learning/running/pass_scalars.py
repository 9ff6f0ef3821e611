"""PassScalars: the settings that the kernels of a pass read, and the sums that they add to. No pass runs here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgefl.kernels.table import ADAM, ADAM_RATES
from edgefl.learning.learner import Array
from edgefl.learning.losses import Loss
from edgefl.learning.optimizers import Adam, Optimizer


class PassScalars:
    """Small arrays at fixed addresses, which the programs of all sessions of one learner share.

    loss     float64 [1]. The kernel of a loss adds the sum of the losses of its batch.
    correct  int64 [1]. The kernel of an evaluation adds the number of right decisions.
    auxiliary  float64 [outputs]. The same sums for the auxiliary outputs, each without its weight.
    dropout  int64 [3]: the key of the random numbers, the number of the step, and the first example of the batch.
    """

    def __init__(self, dtype: np.dtype[Any], weights: Sequence[float] = ()) -> None:
        """Make the arrays. `weights` are the weights of the auxiliary outputs."""
        self._dtype, self._weights = dtype, np.array(weights, np.float64)
        self.auxiliary, self._auxiliary_correct = np.zeros(len(weights)), np.zeros(1, np.int64)
        self.loss, self.correct = np.zeros(1), np.zeros(1, np.int64)
        self.dropout = np.zeros(3, np.int64)
        self._hyper = np.zeros(4, dtype)  # lr, momentum, weight decay and pull, as the kernel sgd reads them
        self._total, self._clip = np.zeros(1), np.zeros(1, dtype)
        self._adam, self._adam_steps = np.zeros(len(ADAM)), np.zeros(1, np.int64)
        self._rates = np.zeros(len(ADAM_RATES), dtype)

    def set_rates(self, optimizer: Optimizer, pull: float) -> None:
        """Set the rates of the steps of a fit, and let Adam count its steps from 1 again.

        pull  mu of FitOptions.pull, or 0.0 without a pull
        """
        if isinstance(optimizer, Adam):
            decoupled = float(optimizer.decoupled)
            rates = optimizer.lr, *optimizer.betas, optimizer.eps, optimizer.weight_decay, decoupled, pull
            self._adam[:], self._adam_steps[0] = rates, 0
        else:
            self._hyper[:] = optimizer.lr, optimizer.momentum, optimizer.weight_decay, pull

    def clear_losses(self) -> None:
        """Set the sums of losses to 0."""
        self.loss[0] = 0.0
        if self._weights.size:
            self.auxiliary[:] = 0.0

    def loss_sum(self, share: float) -> float:
        """Return the sum of the losses since `clear_losses`, times `share`. Auxiliary losses count with their weights.

        `share` is the number of examples divided by the divisor of their mean loss.
        """
        further = float(self.auxiliary @ self._weights) if self._weights.size else 0.0
        return (float(self.loss[0]) + further) * share

    def slots(self, loss: Loss, places: int = 1) -> dict[str, Array | None]:
        """Return the arrays by the names of a schedule's slots (lowering/schedule.py), for passes with this loss.

        places  places of the model's output. A loss of values reads a weight for each place of each channel
        """
        weight = getattr(loss, "weight", None) or np.repeat(getattr(loss, "pos_weight", None) or (), places)
        return {
            "loss": self.loss,
            **{f"loss {i}": self.auxiliary[i : i + 1] for i in range(len(self.auxiliary))},
            "auxiliary_correct": self._auxiliary_correct,
            "correct": self.correct,
            "dropout": self.dropout,
            "hyper": self._hyper,
            "total": self._total,
            "total_bits": self._total.view(np.float32),
            "clip": self._clip,
            "adam": self._adam,
            "adam_steps": self._adam_steps,
            "rates": self._rates,
            "output_weight": None if not len(weight) else np.array(weight, self._dtype),
        }

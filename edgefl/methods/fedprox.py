"""FedProx: FedAvg whose clients are drawn to the model that they received, so that they do not drift far from it.

Source  FedProx (Li et al., MLSys 2020). ALGORITHMS 7.3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.learning.fit_options import Pull
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.option_checks import check
from edgefl.models.neurons.update import Update, values


@dataclass(frozen=True)
class FedProx(FedAvg):
    """The method FedProx: a client minimises F_k(x) + mu / 2 |x - w|^2, where w is the received model.

    mu  strength by which the client's model is drawn to w; 0 is FedAvg, bit for bit

    All clients share the trained part of the model, and mu draws the trained parameters alone.
    """

    name: ClassVar[str] = "fedprox"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True

    mu: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.mu < float("inf"), "mu", self.mu, "a finite mu >= 0")

    def pull(self, received: Update) -> Pull | None:
        return (self.mu, values(received)) if self.mu else None

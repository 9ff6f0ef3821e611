"""Operations that act in another way in training than in evaluation. Dropouts are in dropout.py."""

from __future__ import annotations

from dataclasses import dataclass

from edgefl.models.graph.operations.base import Operation


@dataclass(frozen=True)
class Scaler(Operation):
    """The product of a result and a number in training, and the result itself in evaluation (HeteroFL, ICLR 2021)."""

    factor: float


@dataclass(frozen=True)
class GaussianNoise(Operation):
    """Standard normal numbers in the shape of a result, as torch.randn_like draws them for a variational autoencoder.

    in_evaluation  whether evaluation draws numbers, too. Otherwise the result is 0 there
    """

    in_evaluation: bool

    @property
    def drops(self) -> bool:
        """Return True: training is random, and needs a key."""
        return True

"""Dropout, which sets values, channels or examples to 0 in training and scales the rest. Elsewhere it does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from edgefl.models.graph.operations.base import Operation, Shape, planes, sequence


@dataclass(frozen=True)
class AnyDropout(Operation):
    """The base class of dropouts: each value is 0 with probability p, and x / (1 - p) otherwise.

    With p = 0 nothing is dropped.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p >= 1:
            self.refuse(f"p={self.p}", "0 <= p < 1")

    @property
    def drops(self) -> bool:
        return self.p > 0


@dataclass(frozen=True)
class Dropout(AnyDropout):
    """Dropout of single values."""


@dataclass(frozen=True)
class Dropout2d(AnyDropout):
    """Dropout of whole planes."""

    def output(self, *inputs: Shape) -> Shape:
        return planes(self, inputs[0])


@dataclass(frozen=True)
class StochasticDepth(AnyDropout):
    """Dropout of whole examples, as before the sum of a residual block (Huang et al., ECCV 2016)."""


@dataclass(frozen=True)
class Dropout1d(AnyDropout):
    """Dropout of whole sequences."""

    @property
    def as_planes(self) -> Dropout2d:
        """Return the equivalent operation on planes of one row."""
        return Dropout2d(self.p)

    def output(self, *inputs: Shape) -> Shape:
        return sequence(self, inputs[0])

"""Functions of single values: rectifiers, whose backward pass reads a bit of each, and smooth ones.

PReLU is the one with a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgefl.models.graph.operations.base import LARGEST_FLOAT, Operation, ParamInfo, Shape


@dataclass(frozen=True)
class Rectifier(Operation):
    """An activation whose backward pass reads one bit of each value, x > 0: what ReLU and its kinds share."""


@dataclass(frozen=True)
class ReLU(Rectifier):
    """max(x, 0)."""


@dataclass(frozen=True)
class ReLU6(Rectifier):
    """min(max(x, 0), 6); its bit says 0 < x < 6."""


@dataclass(frozen=True)
class LeakyReLU(Rectifier):
    """x where it is positive, else negative_slope * x. The slope may have either sign."""

    negative_slope: float = 0.01

    def __post_init__(self) -> None:
        if not (isinstance(self.negative_slope, float) and abs(self.negative_slope) <= LARGEST_FLOAT):
            self.refuse(f"negative_slope={self.negative_slope!r}", "a float that is finite in float32")


@dataclass(frozen=True)
class Smooth(Operation):
    """An activation whose backward pass reads its input or its result: what all but the rectifiers share."""


@dataclass(frozen=True)
class Sigmoid(Smooth):
    """1 / (1 + e^-x)."""


@dataclass(frozen=True)
class Tanh(Smooth):
    """The hyperbolic tangent."""


@dataclass(frozen=True)
class SiLU(Smooth):
    """x sigmoid(x), also named swish."""


@dataclass(frozen=True)
class GELU(Smooth):
    """x times the normal distribution function of x, or with approximate="tanh" the usual approximation of it."""

    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            self.refuse(f"approximate={self.approximate!r}", "'none' or 'tanh'")


@dataclass(frozen=True)
class Hardsigmoid(Smooth):
    """min(max(x / 6 + 1/2, 0), 1)."""


@dataclass(frozen=True)
class Hardswish(Smooth):
    """x hardsigmoid(x)."""


@dataclass(frozen=True)
class Softplus(Smooth):
    """log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""

    beta: float = 1.0
    threshold: float = 20.0


@dataclass(frozen=True)
class PReLU(Operation):
    """x where it is positive, else weight * x, with one weight, or one for each channel."""

    num_parameters: int = 1

    def output(self, *inputs: Shape) -> Shape:
        if self.num_parameters not in (1, inputs[0][0]):
            self.refuse(f"num_parameters={self.num_parameters}", f"1 or {inputs[0][0]}")
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo((self.num_parameters,))}

"""Activations, which are functions of single values: rectifiers and smooth functions.

The backward pass of a rectifier reads one bit of each value. PReLU is the only activation with a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgefl.models.graph.operations.base import LARGEST_FLOAT, Operation, ParamInfo, Shape


@dataclass(frozen=True)
class Rectifier(Operation):
    """The base class of ReLU and its variants. The backward pass reads one bit of each value: x > 0."""


@dataclass(frozen=True)
class ReLU(Rectifier):
    """The function max(x, 0)."""


@dataclass(frozen=True)
class ReLU6(Rectifier):
    """The function min(max(x, 0), 6). Its bit says whether 0 < x < 6."""


@dataclass(frozen=True)
class LeakyReLU(Rectifier):
    """The function x where x is positive, and negative_slope * x elsewhere. The slope may have either sign."""

    negative_slope: float = 0.01

    def __post_init__(self) -> None:
        if not (isinstance(self.negative_slope, float) and abs(self.negative_slope) <= LARGEST_FLOAT):
            self.refuse(f"negative_slope={self.negative_slope!r}", "a float that is finite in float32")


@dataclass(frozen=True)
class Smooth(Operation):
    """The base class of all activations but rectifiers and PReLU. The backward pass reads the input or the result."""


@dataclass(frozen=True)
class Sigmoid(Smooth):
    """The function 1 / (1 + e^-x)."""


@dataclass(frozen=True)
class Tanh(Smooth):
    """The hyperbolic tangent."""


@dataclass(frozen=True)
class SiLU(Smooth):
    """The function x sigmoid(x), also named swish."""


@dataclass(frozen=True)
class GELU(Smooth):
    """The function x times the normal distribution function of x.

    approximate  "none", or "tanh" for the usual approximation by tanh
    """

    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            self.refuse(f"approximate={self.approximate!r}", "'none' or 'tanh'")


@dataclass(frozen=True)
class Hardsigmoid(Smooth):
    """The function min(max(x / 6 + 1/2, 0), 1)."""


@dataclass(frozen=True)
class Hardswish(Smooth):
    """The function x hardsigmoid(x)."""


@dataclass(frozen=True)
class Mish(Smooth):
    """The function x tanh(log(1 + e^x))."""


@dataclass(frozen=True)
class Softplus(Smooth):
    """The function log(1 + e^(beta x)) / beta, and x itself where beta x > threshold."""

    beta: float = 1.0
    threshold: float = 20.0


@dataclass(frozen=True)
class ELU(Smooth):
    """x where it is positive, else alpha (e^x - 1)."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.alpha, float) and abs(self.alpha) <= LARGEST_FLOAT):
            self.refuse(f"alpha={self.alpha!r}", "a float that is finite in float32")


@dataclass(frozen=True)
class PReLU(Operation):
    """The function x where x is positive, and weight * x elsewhere, with one weight or one weight for each channel."""

    num_parameters: int = 1

    def output(self, *inputs: Shape) -> Shape:
        if self.num_parameters not in (1, inputs[0][0]):
            self.refuse(f"num_parameters={self.num_parameters}", f"1 or {inputs[0][0]}")
        return inputs[0]

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo((self.num_parameters,))}

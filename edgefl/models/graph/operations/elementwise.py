"""Operations on any values: expressions of results, and sums, means and extremes along axes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgefl.errors import GraphError
from edgefl.models.graph.expression import parsed
from edgefl.models.graph.expression_gradient import check_gradients
from edgefl.models.graph.operations.base import Operation, Shape

SCALED_SUM = re.compile(r"a \+ [0-9.]+(e[-+]?[0-9]+)? \* b")
KINDS = ("sum", "mean", "max", "min")


@dataclass(frozen=True)
class Elementwise(Operation):
    """An expression of one to four results, value by value, such as "a / (b + 1e-5)" (graph/expression.py).

    The results have as many extents as each other. An extent of 1 is repeated, as torch broadcasts it.
    """

    expression: str

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            self.refuse(f"expression={self.expression!r}", "the text of an expression")
        try:
            check_gradients(self.expression)
        except GraphError as error:
            raise GraphError(f"{self.title}: {error}") from None

    @property
    def arity(self) -> int:  # type: ignore[override]
        """Return the number of results that the expression reads."""
        return parsed(self.expression).arity

    def output(self, *inputs: Shape) -> Shape:
        largest = tuple(max(extents) for extents in zip(*inputs, strict=False))
        for shape in inputs:
            fits = len(shape) == len(largest) == len(inputs[0])
            if not fits or any(own not in (1, all_) for own, all_ in zip(shape, largest, strict=True)):
                self.refuse(f"inputs of shapes {', '.join(map(str, inputs))}", "equal extents, or extents of 1")
        return largest


@dataclass(frozen=True)
class AdapterSum(Elementwise):
    """The result of a frozen layer plus a positive number times that of its low-rank adapter: "a + 2.0 * b".

    The channels of both are always active, so that methods that choose neurons choose ranks of the adapter.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if SCALED_SUM.fullmatch(self.expression) is None:
            self.refuse(f"expression={self.expression!r}", "a + S * b with a positive number S")

    @staticmethod
    def of(scale: float) -> AdapterSum:
        """Return the sum in which the adapter counts `scale` times."""
        return AdapterSum(f"a + {scale!r} * b")

    @property
    def scale(self) -> float:
        return float(self.expression[len("a + ") : -len(" * b")])


@dataclass(frozen=True)
class Reduce(Operation):
    """The sum, mean, largest or smallest value along axes, which become extents of 1. The channels are axis 0.

    The gradient of a largest or smallest value is divided among equal values, as by torch's amax.
    """

    kind: str
    axes: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            self.refuse(f"kind={self.kind!r}", " or ".join(map(repr, KINDS)))
        if not self.axes or sorted(set(self.axes)) != list(self.axes):
            self.refuse(f"axes={self.axes}", "one or more axes in rising order")

    @property
    def as_planes(self) -> Reduce:
        """Return the equivalent operation on planes of one row."""
        return Reduce(self.kind, tuple(2 if axis == 1 else axis for axis in self.axes))

    def output(self, *inputs: Shape) -> Shape:
        if self.axes[-1] >= len(inputs[0]):
            self.refuse(f"axes={self.axes} of {inputs[0]}", f"axes below {len(inputs[0])}")
        return tuple(1 if axis in self.axes else size for axis, size in enumerate(inputs[0]))

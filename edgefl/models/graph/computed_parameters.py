"""Parameters that follow from other parameters: normalised weights, products of factors, sums, and other views of them.

A node of a graph may use a computed parameter in place of a parameter. Its sources are the parameters that are trained
and sent, and a computed parameter never is. It is evaluated before the pass that reads it, and its gradient becomes the
gradients of its sources (learning/lowering/computed.py). The list of a graph is checked in parameter_sources.py.

WeightNorm follows Salimans and Kingma (NeurIPS 2016). LoRA (Hu et al., ICLR 2022) adds a ScaledParameter of a
MatrixProduct to a frozen weight. The weight of FedPara (Hyeon-Woo et al., ICLR 2022) is a ParameterProduct of two
MatrixProducts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.expression_steps import MOST_INPUTS
from edgefl.models.graph.expression import parsed
from edgefl.models.graph.expression_gradient import check_gradients, forward
from edgefl.models.graph.operations import Operation, Shape

Array = NDArray[Any]


@dataclass(frozen=True)
class ParameterOperation(Operation):
    """The base class of operations that compute a parameter from sources."""

    @property
    def sources(self) -> tuple[Shape, ...]:
        """Return the shape of each source."""
        raise NotImplementedError

    @property
    def result(self) -> Shape:
        """Return the shape of the computed parameter."""
        raise NotImplementedError

    def value(self, *sources: Array) -> Array:
        """Return the computed parameter for these values of the sources."""
        raise NotImplementedError


@dataclass(frozen=True)
class WeightNorm(ParameterOperation):
    """The weight g v / |v|, with a length g of [shape[0], 1, ...] for each row of v. The sources are g and v."""

    shape: Shape

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.shape[0], *(1 for _ in self.shape[1:])), self.shape

    @property
    def result(self) -> Shape:
        return self.shape

    def value(self, *sources: Array) -> Array:
        g, v = sources
        axes = tuple(range(1, v.ndim))
        return np.asarray(g * (v / np.sqrt((v * v).sum(axis=axes, keepdims=True))), v.dtype)


@dataclass(frozen=True)
class MatrixProduct(ParameterOperation):
    """The product of two matrices [rows, inner] and [inner, cols], such as low-rank factors."""

    rows: int
    inner: int
    cols: int

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.rows, self.inner), (self.inner, self.cols)

    @property
    def result(self) -> Shape:
        return self.rows, self.cols

    def value(self, *sources: Array) -> Array:
        return np.asarray(sources[0] @ sources[1])


@dataclass(frozen=True)
class _OfTwoAlike(ParameterOperation):
    """The base class of operations that combine two sources of one shape value by value."""

    shape: Shape

    @property
    def sources(self) -> tuple[Shape, ...]:
        return self.shape, self.shape

    @property
    def result(self) -> Shape:
        return self.shape


@dataclass(frozen=True)
class ParameterSum(_OfTwoAlike):
    """The sum of two sources of one shape."""

    def value(self, *sources: Array) -> Array:
        return np.asarray(sources[0] + sources[1])


@dataclass(frozen=True)
class ParameterProduct(_OfTwoAlike):
    """The product of two sources of one shape, value by value."""

    def value(self, *sources: Array) -> Array:
        return np.asarray(sources[0] * sources[1])


@dataclass(frozen=True)
class ScaledParameter(ParameterOperation):
    """The source times a positive number, such as alpha / r of LoRA."""

    shape: Shape
    factor: float

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.shape,)

    @property
    def result(self) -> Shape:
        return self.shape

    def value(self, *sources: Array) -> Array:
        return np.asarray(sources[0] * self.factor, sources[0].dtype)


@dataclass(frozen=True)
class TransposedMatrix(ParameterOperation):
    """The transpose [cols, rows] of a matrix [rows, cols]."""

    rows: int
    cols: int

    @property
    def sources(self) -> tuple[Shape, ...]:
        return ((self.rows, self.cols),)

    @property
    def result(self) -> Shape:
        return self.cols, self.rows

    def value(self, *sources: Array) -> Array:
        return np.ascontiguousarray(sources[0].T)


@dataclass(frozen=True)
class ExchangedAxes(ParameterOperation):
    """The values of a source [outer, first, second, inner] as [outer, second, first, inner]."""

    outer: int
    first: int
    second: int
    inner: int

    @property
    def sources(self) -> tuple[Shape, ...]:
        return ((self.outer, self.first, self.second, self.inner),)

    @property
    def result(self) -> Shape:
        return self.outer, self.second, self.first, self.inner

    def value(self, *sources: Array) -> Array:
        return np.ascontiguousarray(sources[0].swapaxes(1, 2))


@dataclass(frozen=True)
class ReshapedParameter(ParameterOperation):
    """The values of the source in the same order with another shape."""

    before: Shape
    shape: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.prod(self.before) != math.prod(self.shape):
            self.refuse(f"shape={self.shape}", f"as many values as {self.before}")

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.before,)

    @property
    def result(self) -> Shape:
        return self.shape

    def value(self, *sources: Array) -> Array:
        return sources[0].reshape(self.shape)


@dataclass(frozen=True)
class ParameterRows(ParameterOperation):
    """Some neighbouring rows of the source, such as the first positions of a longer table of positions.

    before  shape of the source
    start   first row
    """

    before: Shape
    start: int
    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.before or self.start + self.length > self.before[0]:
            self.refuse(f"start={self.start}, length={self.length}", f"rows of a parameter of shape {self.before}")

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.before,)

    @property
    def result(self) -> Shape:
        return (self.length, *self.before[1:])

    def value(self, *sources: Array) -> Array:
        return np.ascontiguousarray(sources[0][self.start : self.start + self.length])


@dataclass(frozen=True)
class RowsAtPlaces(ParameterOperation):
    """The rows of a table at `length` places, as [cols, length], such as a bias by the distance of two positions.

    The sources are the table [rows, cols] and the places, whole numbers below `rows`, which are frozen.
    """

    rows: int
    cols: int
    length: int

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.rows, self.cols), (self.length,)

    @property
    def result(self) -> Shape:
        return self.cols, self.length

    def value(self, *sources: Array) -> Array:
        return np.ascontiguousarray(sources[0][sources[1].astype(np.int64)].T)


@dataclass(frozen=True)
class StackedParameters(ParameterOperation):
    """The rows of all sources below each other, such as weights of queries, keys and values.

    rows  number of rows of each source
    rest  extents of a row, which may be ()
    """

    rows: Shape
    rest: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rows:
            self.refuse(f"rows={self.rows}", "at least one source")

    @property
    def sources(self) -> tuple[Shape, ...]:
        return tuple((rows, *self.rest) for rows in self.rows)

    @property
    def result(self) -> Shape:
        return (sum(self.rows), *self.rest)

    def value(self, *sources: Array) -> Array:
        return np.concatenate(sources)


@dataclass(frozen=True)
class ParameterExpression(ParameterOperation):
    """An expression of one to four sources of one shape, value by value, such as "sin(a)" (graph/expression.py)."""

    shape: Shape
    expression: str

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            self.refuse(f"expression={self.expression!r}", "the text of an expression")
        check_gradients(self.expression)

    @property
    def sources(self) -> tuple[Shape, ...]:
        return (self.shape,) * parsed(self.expression).arity

    @property
    def result(self) -> Shape:
        return self.shape

    def value(self, *sources: Array) -> Array:
        from edgefl.kernels.reference.elementwise import evaluate  # takes 2 MB, which other models do without

        program, found = forward(self.expression), np.empty_like(sources[0])
        given: list[Array | None] = [*sources, *[None] * (MOST_INPUTS - len(sources))]
        evaluate(sources[0], given[1], given[2], given[3], given[4], program.steps, program.constants, found)
        return found


@dataclass(frozen=True)
class ComputedParameter:
    """A parameter that an operation computes from sources, which are parameters or earlier computed parameters."""

    name: str
    op: ParameterOperation
    sources: tuple[str, ...]


def zero_places(computed: Sequence[ComputedParameter]) -> dict[str, Array]:
    """Return places 0 for every table whose rows are read at places, by the name of the places."""
    of_tables = (each for each in computed if isinstance(each.op, RowsAtPlaces))
    return {each.sources[1]: np.zeros(each.op.sources[1], np.float32) for each in of_tables}


PARAMETER_OPERATIONS: dict[str, type[ParameterOperation]] = {
    kind.__name__: kind
    for kind in (
        WeightNorm,
        MatrixProduct,
        ParameterSum,
        ParameterProduct,
        ScaledParameter,
        TransposedMatrix,
        ExchangedAxes,
        ReshapedParameter,
        ParameterRows,
        RowsAtPlaces,
        StackedParameters,
        ParameterExpression,
    )
}

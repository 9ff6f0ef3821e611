"""The operations that move values or combine several results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, Pair, Quad, Shape, planes, sequence


@dataclass(frozen=True)
class Flatten(Operation):
    """All axes in one, channel after channel: [channels, height, width] becomes [channels * height * width]."""

    def output(self, *inputs: Shape) -> Shape:
        return (math.prod(inputs[0]),)


@dataclass(frozen=True)
class Add(Operation):
    """The sum of two results of equal shape."""

    arity: ClassVar[int] = 2

    def output(self, *inputs: Shape) -> Shape:
        if inputs[0] != inputs[1]:
            self.refuse(f"inputs of shapes {inputs[0]} and {inputs[1]}", "equal shapes")
        return inputs[0]


@dataclass(frozen=True)
class Mul(Operation):
    """The product of two results of equal shape, or of planes and gates.

    The gates are a second result: [channels, 1, 1] with one value for each plane, or [1, height, width] with one value
    for each place.
    """

    arity: ClassVar[int] = 2

    def output(self, *inputs: Shape) -> Shape:
        gated, gate = inputs
        if gate not in (gated, (gated[0], *(1 for _ in gated[1:])), (1, *gated[1:])):
            self.refuse(f"inputs of shapes {gated} and {gate}", f"{gated}, or one value for each channel or place")
        return gated


@dataclass(frozen=True)
class Concat(Operation):
    """The channels of several results, one after another. The other extents of the results are equal."""

    arity: ClassVar[int | None] = None

    def output(self, *inputs: Shape) -> Shape:
        for shape in inputs[1:]:
            if shape[1:] != inputs[0][1:]:
                self.refuse(f"inputs of shapes {inputs[0]} and {shape}", "shapes that differ only in their channels")
        return (sum(shape[0] for shape in inputs), *inputs[0][1:])


@dataclass(frozen=True)
class ZeroPad2d(Operation):
    """Zeros around each plane. The padding is (left, right, top, bottom) in cells, as in torch."""

    padding: Quad

    def output(self, *inputs: Shape) -> Shape:
        channels, height, width = planes(self, inputs[0])
        left, right, top, bottom = self.padding
        return (channels, top + height + bottom, left + width + right)


@dataclass(frozen=True)
class Upsample(Operation):
    """Each cell of a plane repeated scale_factor[0] times downwards and scale_factor[1] times to the right.

    For a sequence, scale_factor[0] is 1, and each position is repeated scale_factor[1] times.
    """

    scale_factor: Pair

    def output(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) == 2 and self.scale_factor[0] == 1:
            return (inputs[0][0], inputs[0][1] * self.scale_factor[1])
        channels, height, width = planes(self, inputs[0])
        return (channels, height * self.scale_factor[0], width * self.scale_factor[1])


@dataclass(frozen=True)
class Reshape(Operation):
    """The values in unchanged order as [channels, *places]. The number of values gives the number of channels."""

    places: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.places) <= 2:
            self.refuse(f"places={self.places}", "1 or 2 extents")

    @property
    def as_planes(self) -> Reshape:
        """Return the equivalent operation whose result is planes of one row."""
        return self if len(self.places) == 2 else Reshape((1, *self.places))

    def output(self, *inputs: Shape) -> Shape:
        values, places = math.prod(inputs[0]), math.prod(self.places)
        if values % places:
            self.refuse(f"places={self.places}", f"a divisor of {values} values")
        return (values // places, *self.places)


@dataclass(frozen=True)
class Permute(Operation):
    """The axes in another order: axis i of the result is axis axes[i] of the input, where the batch is not counted."""

    axes: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.axes) not in (2, 3) or sorted(self.axes) != list(range(len(self.axes))):
            self.refuse(f"axes={self.axes}", "a permutation of 0 and 1, or of 0, 1 and 2")

    @property
    def as_planes(self) -> Permute:
        """Return the equivalent operation on planes of one row."""
        return Permute((2, 1, 0)) if self.axes == (1, 0) else Permute((0, 1, 2))

    def output(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) != len(self.axes):
            self.refuse(f"input of shape {inputs[0]}", f"{len(self.axes)} extents")
        return tuple(inputs[0][axis] for axis in self.axes)


@dataclass(frozen=True)
class FlattenPlaces(Operation):
    """All axes joined into one, position after position. This is torch's order where torch has the channels last."""

    def output(self, *inputs: Shape) -> Shape:
        return (math.prod(inputs[0]),)


@dataclass(frozen=True)
class Slice(Operation):
    """The `length` positions of a sequence [channels, positions] that begin with position `start`."""

    start: int
    length: int

    @property
    def as_planes(self) -> SliceOfRow:
        """Return the equivalent operation on planes of one row."""
        return SliceOfRow(self.start, self.length)

    def output(self, *inputs: Shape) -> Shape:
        channels, length = sequence(self, inputs[0])
        return (channels, self._within(length))

    def _within(self, length: int) -> int:
        if self.start + self.length > length:
            self.refuse(f"start={self.start}, length={self.length}", f"positions below {length}")
        return self.length


@dataclass(frozen=True)
class SliceOfRow(Slice):
    """A Slice of planes of one row, as kernels see it. The JSON of a graph never names this class."""

    def output(self, *inputs: Shape) -> Shape:
        channels, _, length = planes(self, inputs[0])
        return (channels, 1, self._within(length))

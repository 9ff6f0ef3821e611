"""What moves values, or puts several results together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from edgefl.graph.operations.base import Operation, Pair, Quad, Shape, planes


@dataclass(frozen=True)
class Flatten(Operation):
    """All axes into one, channel-major: [channels, height, width] to [channels * height * width]."""

    def output(self, *inputs: Shape) -> Shape:
        return (math.prod(inputs[0]),)


@dataclass(frozen=True)
class Add(Operation):
    """Sum of two results of the same shape."""

    arity: ClassVar[int] = 2

    def output(self, *inputs: Shape) -> Shape:
        if inputs[0] != inputs[1]:
            self.refuse(f"inputs of shapes {inputs[0]} and {inputs[1]}", "equal shapes")
        return inputs[0]


@dataclass(frozen=True)
class Mul(Operation):
    """Product of two results of one shape, or of planes with a gate for each, a second result [channels, 1, 1]."""

    arity: ClassVar[int] = 2

    def output(self, *inputs: Shape) -> Shape:
        gated, gate = inputs
        if gate not in (gated, (gated[0], *(1 for _ in gated[1:]))):
            self.refuse(f"inputs of shapes {gated} and {gate}", f"{gated}, or one value for each channel")
        return gated


@dataclass(frozen=True)
class Concat(Operation):
    """The channels of several results one after another; their other extents are equal."""

    arity: ClassVar[int | None] = None

    def output(self, *inputs: Shape) -> Shape:
        for shape in inputs[1:]:
            if shape[1:] != inputs[0][1:]:
                self.refuse(f"inputs of shapes {inputs[0]} and {shape}", "shapes that differ in their channels alone")
        return (sum(shape[0] for shape in inputs), *inputs[0][1:])


@dataclass(frozen=True)
class ZeroPad2d(Operation):
    """Zeros around each plane: left, right, top, bottom as in torch."""

    padding: Quad

    def output(self, *inputs: Shape) -> Shape:
        channels, height, width = planes(self, inputs[0])
        left, right, top, bottom = self.padding
        return (channels, top + height + bottom, left + width + right)


@dataclass(frozen=True)
class Upsample(Operation):
    """Each cell of a plane repeated: scale_factor[0] times downwards and scale_factor[1] times to the right."""

    scale_factor: Pair

    def output(self, *inputs: Shape) -> Shape:
        channels, height, width = planes(self, inputs[0])
        return (channels, height * self.scale_factor[0], width * self.scale_factor[1])

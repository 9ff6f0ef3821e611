"""Windows over planes, and along lines: pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, Pair, Shape, planes, sequence, slide

LARGEST_WINDOW = 255  # cells of a max pool's window: the position that won is stored in one byte


@dataclass(frozen=True)
class Pool(Operation):
    """A window over each plane: what MaxPool2d and AvgPool2d share."""

    kernel_size: Pair
    stride: Pair
    padding: Pair = (0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(2 * pad > kernel for pad, kernel in zip(self.padding, self.kernel_size, strict=True)):
            self.refuse(f"padding={self.padding}", f"at most half of kernel_size={self.kernel_size}")

    def output(self, *inputs: Shape) -> Shape:
        channels, height, width = planes(self, inputs[0])
        window = self.kernel_size, self.stride, self.padding
        return (channels, *slide(self, (height, width), *window, self.rounds_up))

    @property
    def rounds_up(self) -> bool:
        """Whether the last windows may be cut."""
        raise NotImplementedError


@dataclass(frozen=True)
class MaxPool2d(Pool):
    """Largest value of each window; padding never wins."""

    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def rounds_up(self) -> bool:
        return self.ceil_mode

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.prod(self.kernel_size) > LARGEST_WINDOW:
            self.refuse(f"kernel_size={self.kernel_size}", f"a window of at most {LARGEST_WINDOW} cells")


@dataclass(frozen=True)
class AvgPool2d(Pool):
    """Mean of each window; with count_include_pad the divisor counts padded cells too, those of a cut window none."""

    count_include_pad: bool = True
    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def rounds_up(self) -> bool:
        return self.ceil_mode


@dataclass(frozen=True)
class GlobalAvgPool(Operation):
    """Mean over each plane: [channels, height, width] to [channels, 1, 1], or [channels, length] to [channels, 1]."""

    def output(self, *inputs: Shape) -> Shape:
        shape = inputs[0]
        if len(shape) not in (2, 3):
            self.refuse(f"input of shape {shape}", "[channels, height, width] or [channels, length]")
        return (shape[0], *(1 for _ in shape[1:]))


@dataclass(frozen=True)
class AdaptiveAvgPool2d(Operation):
    """Means of windows that cover each plane, as many as output_size says: equal ones where it divides height and
    width, else some are longer by a cell, which two may share.
    """

    output_size: Pair

    def window(self, shape: Shape) -> AvgPool2d | None:
        """The windows over planes of this shape, where they are equal."""
        _, *size = planes(self, shape)
        if any(cells % parts for cells, parts in zip(size, self.output_size, strict=True)):
            return None
        height, width = (cells // parts for cells, parts in zip(size, self.output_size, strict=True))
        return AvgPool2d((height, width), (height, width))

    def output(self, *inputs: Shape) -> Shape:
        channels, _, _ = planes(self, inputs[0])
        return (channels, *self.output_size)


@dataclass(frozen=True)
class AdaptiveAvgPool1d(Operation):
    """Means of output_size windows that cover each line."""

    output_size: int

    @property
    def as_planes(self) -> AdaptiveAvgPool2d:
        """The same of planes of one row."""
        return AdaptiveAvgPool2d((1, self.output_size))

    def output(self, *inputs: Shape) -> Shape:
        channels, _ = sequence(self, inputs[0])
        return (channels, self.output_size)


@dataclass(frozen=True)
class Pool1d(Operation):
    """A window along [channels, length]: what MaxPool1d and AvgPool1d share."""

    kernel_size: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.as_planes

    @property
    def as_planes(self) -> Pool:
        """The same of planes of one row."""
        raise NotImplementedError

    @property
    def _window(self) -> tuple[Pair, Pair, Pair]:
        return (1, self.kernel_size), (1, self.stride), (0, self.padding)

    def output(self, *inputs: Shape) -> Shape:
        channels, length = sequence(self, inputs[0])
        return self.as_planes.output((channels, 1, length))[::2]


@dataclass(frozen=True)
class MaxPool1d(Pool1d):
    """Largest value of each window."""

    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def as_planes(self) -> MaxPool2d:
        return MaxPool2d(*self._window, self.ceil_mode)


@dataclass(frozen=True)
class AvgPool1d(Pool1d):
    """Mean of each window; with count_include_pad the divisor counts padded cells too, those of a cut window none."""

    count_include_pad: bool = True
    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def as_planes(self) -> AvgPool2d:
        return AvgPool2d(*self._window, self.count_include_pad, self.ceil_mode)

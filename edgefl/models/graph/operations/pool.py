"""Pooling: windows over planes and along sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, Pair, Shape, planes, sequence, slide

LARGEST_WINDOW = 255  # cells in the window of a max pool, because the largest value's position is kept in one byte


@dataclass(frozen=True)
class Pool(Operation):
    """A window over each plane: the base class of MaxPool2d and AvgPool2d."""

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
        """Return whether the last windows may reach beyond the padding, where they are cut."""
        raise NotImplementedError


@dataclass(frozen=True)
class MaxPool2d(Pool):
    """The largest value of each window. A padded cell is never the largest."""

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
    """The mean of each window. With count_include_pad the divisor counts padded cells, too.

    The divisor never counts the cells by which a window is cut.
    """

    count_include_pad: bool = True
    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def rounds_up(self) -> bool:
        return self.ceil_mode


@dataclass(frozen=True)
class GlobalAvgPool(Operation):
    """The mean over each plane or sequence, which leaves [channels, 1, 1] or [channels, 1]."""

    def output(self, *inputs: Shape) -> Shape:
        shape = inputs[0]
        if len(shape) not in (2, 3):
            self.refuse(f"input of shape {shape}", "[channels, height, width] or [channels, length]")
        return (shape[0], *(1 for _ in shape[1:]))


@dataclass(frozen=True)
class AdaptiveAvgPool2d(Operation):
    """The means of windows that cover each plane. output_size is the number of windows downwards and to the right.

    The windows are equal if output_size divides height and width. Otherwise some windows are longer by one cell, and
    two windows may share a cell.
    """

    output_size: Pair

    def window(self, shape: Shape) -> AvgPool2d | None:
        """Return the average pool with these windows for planes of this shape, or None if the windows are not equal."""
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
    """The means of output_size windows that cover each sequence."""

    output_size: int

    @property
    def as_planes(self) -> AdaptiveAvgPool2d:
        """Return the equivalent operation on planes of one row."""
        return AdaptiveAvgPool2d((1, self.output_size))

    def output(self, *inputs: Shape) -> Shape:
        channels, _ = sequence(self, inputs[0])
        return (channels, self.output_size)


@dataclass(frozen=True)
class Pool1d(Operation):
    """A window along [channels, length]: the base class of MaxPool1d and AvgPool1d."""

    kernel_size: int
    stride: int
    padding: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.as_planes

    @property
    def as_planes(self) -> Pool:
        """Return the equivalent operation on planes of one row."""
        raise NotImplementedError

    @property
    def _window(self) -> tuple[Pair, Pair, Pair]:
        return (1, self.kernel_size), (1, self.stride), (0, self.padding)

    def output(self, *inputs: Shape) -> Shape:
        channels, length = sequence(self, inputs[0])
        return self.as_planes.output((channels, 1, length))[::2]


@dataclass(frozen=True)
class MaxPool1d(Pool1d):
    """The largest value of each window."""

    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def as_planes(self) -> MaxPool2d:
        return MaxPool2d(*self._window, self.ceil_mode)


@dataclass(frozen=True)
class AvgPool1d(Pool1d):
    """The mean of each window. With count_include_pad the divisor counts padded cells, too.

    The divisor never counts the cells by which a window is cut.
    """

    count_include_pad: bool = True
    ceil_mode: bool = False
    later: ClassVar[tuple[str, ...]] = ("ceil_mode",)

    @property
    def as_planes(self) -> AvgPool2d:
        return AvgPool2d(*self._window, self.count_include_pad, self.ceil_mode)

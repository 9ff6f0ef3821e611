"""The operations that sample planes anew: bilinear interpolation, cells beyond the edges, and reversed positions."""

from __future__ import annotations

from dataclasses import dataclass

from edgefl.models.graph.operations.base import Operation, Pair, Quad, Shape, planes


def _places(op: Operation, shape: Shape) -> Pair:
    """Return height and width. A sequence is a plane of one row."""
    return (1, shape[1]) if len(shape) == 2 else planes(op, shape)[1:]


@dataclass(frozen=True)
class Interpolate(Operation):
    """Planes of `size` cells by bilinear interpolation, or sequences of size[1] positions by linear interpolation.

    Cells are squares whose middles hold the values. With align_corners, cells are points, and the corners of the input
    and of the result lie at one place. It is torch.nn.functional.interpolate with mode="bilinear", or "linear".
    """

    size: Pair
    align_corners: bool = False

    def output(self, *inputs: Shape) -> Shape:
        _places(self, inputs[0])
        if len(inputs[0]) == 2 and self.size[0] != 1:
            self.refuse(f"size={self.size} of a sequence", "size[0]=1")
        return (inputs[0][0], *self.size[3 - len(inputs[0]) :])


@dataclass(frozen=True)
class BorderPad(Operation):
    """Cells around each plane that continue it: the base class of the three modes.

    The padding is (left, right, top, bottom) in cells, as in torch. A sequence has no padding at top and bottom.
    """

    padding: Quad

    def most(self, cells: int) -> int | None:
        """Return the largest padding of an axis of so many cells, or None if any padding is possible."""
        return None

    def output(self, *inputs: Shape) -> Shape:
        (height, width), (left, right, top, bottom) = _places(self, inputs[0]), self.padding
        for cells, room in ((width, max(left, right)), (height, max(top, bottom))):
            most = self.most(cells)
            if most is not None and room > most:
                self.refuse(f"padding={self.padding} of shape {inputs[0]}", f"at most {most} for {cells} cells")
        if len(inputs[0]) == 2:
            if top or bottom:
                self.refuse(f"padding={self.padding} of a sequence", "no padding at top and bottom")
            return (inputs[0][0], left + width + right)
        return (inputs[0][0], top + height + bottom, left + width + right)


@dataclass(frozen=True)
class ReflectionPad2d(BorderPad):
    """The cells around a plane are the cells inside it, mirrored at the cells of the edge."""

    def most(self, cells: int) -> int:
        return cells - 1


@dataclass(frozen=True)
class ReplicationPad2d(BorderPad):
    """Each cell around a plane is the nearest cell of the plane."""


@dataclass(frozen=True)
class CircularPad2d(BorderPad):
    """The cells around a plane are the cells of its other side."""

    def most(self, cells: int) -> int:
        return cells


@dataclass(frozen=True)
class Flip(Operation):
    """The positions of a sequence, or the columns of each plane, in reverse."""

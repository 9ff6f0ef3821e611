"""The operation that takes one input out of several that are packed into one array."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgefl.models.graph.operations.base import Operation, Shape


@dataclass(frozen=True)
class InputPart(Operation):
    """Neighbouring values of the graph's input [values], as an input of their own: ids of a table, or numbers.

    The inputs of a model with several inputs lie flattened side by side in one array.

    start  position of the first value
    shape  shape of the part: [features], ids [length], [channels, length] or [channels, height, width]
    """

    start: int
    shape: Shape

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.shape) <= 3:
            self.refuse(f"shape={self.shape}", "1 to 3 extents")

    @property
    def stop(self) -> int:
        """Return the position after the last value."""
        return self.start + math.prod(self.shape)

    @property
    def as_planes(self) -> InputPart:
        """Return the equivalent operation whose result is planes of one row."""
        return InputPart(self.start, (self.shape[0], 1, self.shape[1])) if len(self.shape) == 2 else self

    def output(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) != 1 or self.stop > inputs[0][0]:
            self.refuse(f"start={self.start}, shape={self.shape}", f"values of an input of shape {inputs[0]}")
        return self.shape

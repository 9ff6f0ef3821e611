"""Ranges of channels as operations of a graph: the values of channels lie one after another, as positions of a line."""

from __future__ import annotations

import math
from typing import Any

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Flatten, Operation, Reshape, Shape, Slice
from edgefl.torch.axis_order import Value, with_channels


def with_first(value: Value, dim: int) -> Value:
    """Return the value whose channels are torch's axis `dim`."""
    axes = with_channels(value.axes, dim)
    sizes = dict(zip(axes, value.extents, strict=True))
    return Value(value.name, tuple(int(sizes[axis]) for axis in range(1, len(axes))), axes)


def range_of_channels(shape: Shape, part: Any) -> tuple[Operation, ...]:
    """Return the operations that take neighbouring channels of a shape, or one channel of each few.

    Raises  GraphError for other channels
    """
    count, places = shape[0], shape[1:]
    start, stop, step = part.indices(count) if isinstance(part, slice) else (0, 0, 1)
    each, back = math.prod(places), Reshape(places) if places else Flatten()
    if step > 1 and count % step == 0 and start < step and stop > count - step + start:
        return (Reshape((step * each,)), Slice(start * each, each), back)
    if step != 1 or stop <= start:
        raise GraphError(f"index {part!r} of {count} channels; expected consecutive channels, or one of each few")
    return (Reshape((count * each,)), Slice(start * each, (stop - start) * each), back)

"""Columns of an input [batch, values], as inputs of their own: `x[:, 0]` and `x[:, 3:8]`.

Columns may be ids of tables, which no other operation than InputPart can take out of an input.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from edgefl.models.graph import INPUT
from edgefl.models.graph.operations import InputPart
from edgefl.torch.axis_order import Axes, Value, first

SELECTING = ("select", torch.select)
NARROWING = ("narrow", torch.narrow)


def column(
    target: Any, arguments: list[Any], source: Value, parts: dict[str, InputPart]
) -> tuple[InputPart, Axes] | None:
    """Return the part of the graph's input that a call takes, and its axes. Return None for other calls.

    arguments  the call's arguments after the input
    parts      parts of the input so far, by name
    """
    whole = InputPart(0, source.shape) if source.name == INPUT else parts.get(source.name)
    if whole is None or len(source.shape) != 1 or source.axes != first(2):
        return None
    length, index = source.shape[0], _index(target, arguments)
    if isinstance(index, int) and -length <= index < length:
        return InputPart(whole.start + index % length, (1,)), (0,)
    if isinstance(index, slice):
        start, stop, step = index.indices(length)
        if step == 1 and start < stop and (start, stop) != (0, length):
            return InputPart(whole.start + start, (stop - start,)), first(2)
    return None


def _index(target: Any, arguments: list[Any]) -> Any:
    """Return the index along the columns: a number, a slice, or None."""
    if target in SELECTING and len(arguments) == 2 and arguments[0] in (1, -1):
        return arguments[1]
    if target in NARROWING and len(arguments) == 3 and arguments[0] in (1, -1):
        return slice(arguments[1], arguments[1] + arguments[2]) if arguments[1] >= 0 else None
    if target is operator.getitem and isinstance(arguments[0], tuple) and len(arguments[0]) == 2:
        rows, columns = arguments[0]
        return columns if rows == slice(None) else None
    return None

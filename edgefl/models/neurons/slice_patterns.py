"""Slices in the patterns of --train, as in conv1.weight[0:8], fc.weight[:, 0:32] and blocks.*.weight[8:].

The pattern before the bracket chooses the parameters, and the bracket their rows (axis 0) and columns (axis 1). A range
leaves out its first or its last index as in Python, without negative indices and without steps. trained_part.py has the
other patterns.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from edgefl.errors import GraphError
from edgefl.models.graph.operations import ParamInfo
from edgefl.models.graph.parameter_slices import Range, SlicedParameter

AT_THE_END = re.compile(r"\[([^\[\]]*:[^\[\]]*)\]$")
COMMA = re.compile(r",(?![^\[\]]*\])")  # not within brackets
RANGE = re.compile(r"(\d*):(\d*)")
MOST_CHARACTERS = 100  # characters of a pattern in an error message

Ends = tuple[int, int | None]
"""The first index of a range, and the index after its last. The end of the axis is None."""


class SlicePattern(NamedTuple):
    """A pattern with a slice: the pattern of the names, and the ranges along the first axes."""

    text: str
    names: str
    ends: tuple[Ends, ...]

    def of(self, name: str, info: ParamInfo) -> SlicedParameter | None:
        """Return the slice of a parameter, or None if the slice is the whole parameter.

        Raises  GraphError if the parameter is a running statistic, or does not have these rows and columns.
        """
        if info.kind == "stat":
            raise GraphError(f"train={self.text} names a slice of the running statistic {name}; expected all of it")
        if len(self.ends) > len(info.shape):
            raise GraphError(f"train={self.text} names columns of {name}, whose shape is {info.shape}; expected rows")
        found = [_range(self.text, name, axis, ends, info.shape) for axis, ends in enumerate(self.ends)]
        part = SlicedParameter(name, *found)
        return None if part == SlicedParameter(name) else part


def split(text: str) -> list[str]:
    """Return the patterns of a text, which commas separate. A comma within brackets belongs to a pattern."""
    return COMMA.split(text)


def slice_pattern(pattern: str) -> SlicePattern | None:
    """Return what a pattern with a slice says, or None for a pattern without a slice.

    Raises  GraphError if the slice takes away, or is not one or two ranges
    """
    shown, found = pattern[:MOST_CHARACTERS], AT_THE_END.search(pattern)
    if found is None:
        return None
    name = pattern[: found.start()]
    if name.startswith("-"):
        raise GraphError(
            f"train={shown} takes away a slice; expected the slice that is trained, as in "
            f"{name[:MOST_CHARACTERS]},{name[1:MOST_CHARACTERS]}[0:8]"
        )
    ranges = [RANGE.fullmatch(part.strip()) for part in found[1].split(",")]
    if not name or len(ranges) > 2 or not all(ranges):
        raise GraphError(
            f"train={shown} is not a slice; expected a name with rows, as in fc.weight[0:8], or with rows and columns, "
            "as in fc.weight[:, 0:32]"
        )
    ends = (each.groups() for each in ranges if each is not None)
    return SlicePattern(shown, name, tuple((int(first or 0), int(end) if end else None) for first, end in ends))


def _range(text: str, name: str, axis: int, ends: Ends, shape: tuple[int, ...]) -> Range | None:
    size, first = shape[axis], ends[0]
    end = size if ends[1] is None else ends[1]
    if not first < end <= size:
        what = ("rows", "columns")[axis]
        raise GraphError(
            f"train={text} names the {what} {first}:{end} of {name}, whose shape is {shape}; expected some of 0:{size}"
        )
    return None if (first, end) == (0, size) else (first, end)

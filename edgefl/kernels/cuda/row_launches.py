"""Launches that follow from rows of the table: one kernel of the operation's name, which takes values one by one.

The field `cuda` of a row lists the fields of the kernel's struct. A field is an argument of the operation, a number of
EXTENTS, or `chosen`, the chosen channels. Threads take the values of the first array that is written, or the values of
the chosen channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..signature import Signature
from ..table import TABLE
from .launch import Fields, Ids, KernelArray, Launches, chosen, launch
from .structs import members, struct_of

EXTENTS: dict[str, Callable[[KernelArray], int]] = {
    "batch": lambda first: first.shape[0],
    "channels": lambda first: first.shape[1],
    "planes": lambda first: first.shape[0] * first.shape[1],
    "inner": lambda first: first.inner,
}
"""The extents of the first array of a call, [batch, channels, ...]."""


def bodies() -> dict[str, Callable[..., Launches]]:
    """Return the functions of the operations whose launch follows from the row, by name."""
    return {name: partial(_launches, row) for name, row in TABLE.items() if row.cuda}


def _launches(row: Signature, *values: Any) -> Launches:
    given = dict(zip(row.names, values, strict=True))
    first = next(value for value in values if isinstance(value, KernelArray))
    work = next(given[argument.name].size for argument in row.arguments if argument.is_written)
    names = [member.name for member in members(struct_of(row.name))]
    fields: Fields = {name: given[name] for name in names if name in given}
    fields |= {name: extent(first) for name, extent in EXTENTS.items() if name in names and name not in given}
    if "count" in names:
        fields["count"] = work
    if "chosen" in names:
        fields["chosen"] = chosen(given["channels"], first)
        work = first.shape[0] * Ids.of(given["channels"], first.shape[1]).count * first.inner
    return [launch(row.name, work, **fields)]

"""The vocabulary of the families' functions: device arrays, ids, scratch memory, and the launches that they return.

    def add(a: KernelArray, b: KernelArray, y: KernelArray) -> Launches:
        return [launch("add", a.size, a=a, b=b, y=y, count=a.size)]

A launch's arguments are the fields of the kernel's struct by name. The struct is a row (structs.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from .structs import CPP, Member, declare, members, struct_of

declare(
    {
        # These are ids of channels, rows or columns, from a list or all below count.
        "Ids": "list:int32[]? count",
        # These are the values of chosen channels of [batch, all channels, inner].
        "Chosen": "channels:Ids all inner",
        "parameters::BlockOf": "rows,columns:Ids all_columns inner",
    }
)

THREADS = 256  # of a block, unless a kernel says otherwise
MOST_BLOCKS = 1 << 16  # of a launch whose threads take one place after another


class KernelArray(NamedTuple):
    """An array of a call, as the kernels see it. `offset` counts bytes from the array's first byte."""

    array: Array
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def inner(self) -> int:
        """The number of values in a plane of [batch, channels, ...]."""
        return math.prod(self.shape[2:])


class Scratch(NamedTuple):
    """Bytes of memory that a call's launches share, and that the next call uses again. `offset` is in bytes."""

    offset: int
    size: int


Value = KernelArray | Scratch | int | float | None


class StructValues(NamedTuple):
    """The values of a struct's fields, in the order of its row, of 8 bytes each."""

    struct: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Ids:
    """Sorted ids, or all ids below `count`."""

    list: KernelArray | None
    count: int

    @classmethod
    def of(cls, ids: KernelArray | None, size: int) -> Ids:
        return cls(ids, size if ids is None else ids.size)


Field = Value | Ids | StructValues
Fields = dict[str, Field]


def struct_values(name: str, /, **fields: Field) -> StructValues:
    """Return the values of a struct. Raises TypeError unless its row has the fields by name and by type."""
    row = members(name)
    if len(fields) != len(row) or any(member.name not in fields for member in row):
        expected = ", ".join(member.name for member in row)
        raise TypeError(f"{name} is given {', '.join(fields)}; expected {expected}")
    return StructValues(name, tuple(value for member in row for value in _values(name, member, fields[member.name])))


def _values(name: str, member: Member, field: Field) -> tuple[Value, ...]:
    if isinstance(field, Ids):
        field = struct_values("Ids", list=field.list, count=field.count)
    if isinstance(field, StructValues):
        if member.is_struct and field.struct == member.type:
            return field.values
    elif member.is_array:
        if _is_array_of(field, member):
            return (field,)
    elif isinstance(field, int | np.integer | np.bool_) and member.type in ("int", "real"):
        return (int(field) if member.type == "int" else float(field),)
    elif isinstance(field, float | np.floating) and member.type == "real":
        return (float(field),)
    raise TypeError(f"{name}.{member.name} is {_shown(field)}; expected {member.type}{'[]' * member.is_array}")


def _shown(field: Field) -> str:
    if isinstance(field, KernelArray):
        return f"{field.dtype.name}{list(field.shape)}"
    return f"a struct {field.struct}" if isinstance(field, StructValues) else str(field)


def _is_array_of(field: Value, member: Member) -> bool:
    if not isinstance(field, KernelArray):
        return isinstance(field, Scratch) or (field is None and member.is_optional)
    if member.type in ("word", "bits"):
        return field.dtype.itemsize == 4
    is_any = member.type in ("any", "bytes", "pixels") or member.type not in CPP
    return is_any or field.dtype.name == _NUMPY.get(member.type, member.type)


_NUMPY = {"float": "float32"}  # other types have the names that numpy gives them


def block_of(w: KernelArray, rows: KernelArray | None, cols: KernelArray | None) -> StructValues:
    """Return the struct for w[rows, cols, :], where w is [rows, cols, inner]."""
    row_count, column_count, inner = w.shape
    ids = {"rows": Ids.of(rows, row_count), "columns": Ids.of(cols, column_count)}
    return struct_values("parameters::BlockOf", **ids, all_columns=column_count, inner=inner)


def chosen(channels: KernelArray | None, whole: KernelArray) -> StructValues:
    """Return the struct for the channels of [batch, channels, ...] that are taken."""
    return struct_values("Chosen", channels=Ids.of(channels, whole.shape[1]), all=whole.shape[1], inner=whole.inner)


class PlannedLaunch(NamedTuple):
    """A launch whose addresses are not known yet. `fields` are of one call."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    fields: tuple[Value, ...]


Launches = Sequence[PlannedLaunch]


def launch(kernel: str, work: int, threads: int = THREADS, /, **fields: Field) -> PlannedLaunch:
    """Plan a launch whose threads, in blocks in a row, take places below `work` in turns (thread_of_grid)."""
    return tiled(kernel, (min(-(-work // threads), MOST_BLOCKS), 1, 1), threads, **fields)


def tiled(kernel: str, grid: tuple[int, int, int], threads: int = THREADS, /, **fields: Field) -> PlannedLaunch:
    """Plan a launch of a grid of blocks. Nothing is launched if an extent of the grid is 0."""
    return PlannedLaunch(kernel, grid, threads, struct_values(struct_of(kernel), **fields).values)


def fours(size: int) -> int:
    """Return the number of groups when values are taken four at a time (each_pair of places.cuh)."""
    return -(-size // 4)


def is_empty(planned: PlannedLaunch) -> bool:
    return 0 in planned.grid

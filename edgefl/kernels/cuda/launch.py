"""The vocabulary of the families' functions: device arrays, ids, scratch memory, and the launches that they return.

    def add(a: KernelArray, b: KernelArray, y: KernelArray) -> Launches:
        return [launch("add", a.size, a, b, y, a.size)]

A launch's arguments are the fields of the kernel's struct, in order, of 8 bytes each (csrc/cuda/portable.cuh).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array

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


@dataclass(frozen=True)
class Ids:
    """Sorted ids, or all ids below `count`: the two fields of the struct `Ids` of portable.cuh."""

    list: KernelArray | None
    count: int

    @classmethod
    def of(cls, ids: KernelArray | None, size: int) -> Ids:
        return cls(ids, size if ids is None else ids.size)


def block_of(w: KernelArray, rows: KernelArray | None, cols: KernelArray | None) -> tuple[Ids, Ids, int, int]:
    """Return the six fields of `BlockOf` (block.cuh) for w[rows, cols, :], where w is [rows, cols, inner]."""
    all_rows, all_columns, inner = w.shape
    return Ids.of(rows, all_rows), Ids.of(cols, all_columns), all_columns, inner


def chosen(channels: KernelArray | None, whole: KernelArray) -> tuple[Ids, int, int]:
    """Return the four fields of `Chosen` (places.cuh) for the channels of [batch, channels, ...] that are taken."""
    return Ids.of(channels, whole.shape[1]), whole.shape[1], whole.inner


class Scratch(NamedTuple):
    """Bytes of memory that a call's launches share, and that the next call uses again. `offset` is in bytes."""

    offset: int
    size: int


Field = KernelArray | Ids | Scratch | int | float | None


class PlannedLaunch(NamedTuple):
    """A launch whose addresses are not known yet."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    fields: tuple[Field, ...]


Launches = Sequence[PlannedLaunch]


def launch(kernel: str, work: int, *fields: Field, threads: int = THREADS) -> PlannedLaunch:
    """Plan a launch whose threads, in blocks in a row, take places below `work` in turns (thread_of_grid)."""
    return tiled(kernel, (min(-(-work // threads), MOST_BLOCKS), 1, 1), *fields, threads=threads)


def tiled(kernel: str, grid: tuple[int, int, int], *fields: Field, threads: int = THREADS) -> PlannedLaunch:
    """Plan a launch of a grid of blocks. Nothing is launched if an extent of the grid is 0."""
    return PlannedLaunch(kernel, grid, threads, fields)


def fours(size: int) -> int:
    """Return the number of groups when values are taken four at a time (each_pair of places.cuh)."""
    return -(-size // 4)


def is_empty(planned: PlannedLaunch) -> bool:
    return 0 in planned.grid

"""The structure of a masked Linear layer in numpy: which weights exist, in the order in which kernels read them.

The products are not here. csrc/core/sparse_linear.h describes the words of a structure, and why they lie so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import Array

MAGIC = 0x4C505345
HEADER = 8
PANEL = 128
MOST_WIDTH = 511
COUNT_BITS = 9
STEP = 8
FEW, SOME = 16, 32


class SparseLinearLayout(NamedTuple):
    """The extents of a structure: a matrix that is cut into panels of rows and blocks of `width` columns."""

    rows: int
    columns: int
    slots: int
    width: int

    @property
    def panels(self) -> int:
        return -(-self.rows // PANEL)

    @property
    def blocks(self) -> int:
        return max(1, -(-self.columns // self.width))

    @property
    def segments(self) -> int:
        return self.panels * self.blocks

    @property
    def words(self) -> int:
        return HEADER + 2 * (self.segments + 1) + self.rows * self.blocks + (self.slots + 1) // 2 + 1

    @property
    def entries(self) -> int:
        """The index at which the entries begin."""
        return HEADER + 2 * (self.segments + 1)

    @property
    def offsets(self) -> int:
        return self.entries + self.rows * self.blocks


def plan(rows: int, columns: int, slots: int, batch: int) -> SparseLinearLayout:
    """Choose the layout for a mask that keeps `slots` weights of a matrix, for batches of about `batch` examples."""
    if batch <= FEW:
        width = 384
    elif batch <= SOME:
        width = 192
    else:
        width = 48 if not rows or slots // rows >= columns * 3 // 20 else 128
    return SparseLinearLayout(rows, columns, slots, width)


def build(mask: Array, batch: int, is_transposed: bool) -> tuple[Array, Array]:
    """Return the structure of a mask [rows, columns] of bools, and the flat index of each slot in the mask."""
    rows, columns = np.nonzero(mask)
    made = plan(mask.shape[0], mask.shape[1], len(rows), batch)
    counts = np.zeros((made.rows, made.blocks), np.int64)
    np.add.at(counts, (rows, columns // made.width), 1)
    listed = (counts > 0) | (np.arange(made.blocks) == 0)
    row, block = np.nonzero(listed)
    count, segment = counts[listed], row // PANEL * made.blocks + block
    sorting = np.lexsort((row, count, segment))
    row, block, count, segment = row[sorting], block[sorting], count[sorting], segment[sorting]

    position = np.zeros(counts.shape, np.int64)
    position[row, block] = np.arange(len(row))
    slots = np.argsort(position[rows, columns // made.width], kind="stable")
    rows, columns = rows[slots], columns[slots]

    structure = np.zeros(made.words, np.uint32)
    structure[:6] = MAGIC, made.rows, made.columns, made.width, made.slots, is_transposed
    bounds = np.searchsorted(segment, np.arange(made.segments + 1))
    starts = structure[HEADER : made.entries].reshape(-1, 2)
    starts[:, 0], starts[:, 1] = bounds, np.concatenate([[0], np.cumsum(count)])[bounds]
    structure[made.entries : made.entries + len(row)] = row << COUNT_BITS | count
    structure[made.offsets :].view(np.uint16)[: made.slots] = columns % made.width * STEP
    return structure, (rows * made.columns + columns).astype(np.uint32)


def decode(structure: Array, outs: int, ins: int, slots: int, may_be_transposed: bool) -> tuple[Array, Array]:
    """Return the output and the input of each slot of a layer's structure.

    Raises ValueError unless it is a whole structure of such a layer.
    """
    is_transposed = may_be_transposed and len(structure) > HEADER and structure[5] == 1
    rows, columns = (ins, outs) if is_transposed else (outs, ins)
    header = [MAGIC, rows, columns, slots, int(is_transposed)]
    if len(structure) < HEADER or structure[[0, 1, 2, 4, 5]].tolist() != header:
        raise _refusal(structure, f"one of {slots} weights, {ins} inputs and {outs} outputs")
    made = SparseLinearLayout(rows, columns, slots, int(structure[3]))
    if not 1 <= made.width <= MOST_WIDTH or made.words != len(structure):
        raise _refusal(structure, "as many words as it claims to have")
    row, column = _positions(made, structure)
    return (column, row) if is_transposed else (row, column)


def _positions(made: SparseLinearLayout, structure: Array) -> tuple[Array, Array]:
    starts = structure[HEADER : made.entries].reshape(-1, 2).astype(np.int64)
    sizes = np.diff(starts, axis=0)
    if starts[0].any() or (sizes < 0).any() or starts[-1, 0] > made.rows * made.blocks or starts[-1, 1] != made.slots:
        raise _refusal(structure, "segments in order that end with the last slot")
    entries = structure[made.entries : made.entries + starts[-1, 0]].astype(np.int64)
    row, count = entries >> COUNT_BITS, entries & ((1 << COUNT_BITS) - 1)
    segment = np.repeat(np.arange(made.segments), sizes[:, 0])
    panel_rows = np.minimum(PANEL, made.rows - np.arange(made.panels) * PANEL)
    if (row // PANEL != segment // made.blocks).any() or (row >= made.rows).any():
        raise _refusal(structure, "rows inside of their panels")
    if (sizes[:: made.blocks, 0] != panel_rows).any():
        raise _refusal(structure, "every row of a panel in its first block")
    if (np.bincount(segment, count, made.segments) != sizes[:, 1]).any():
        raise _refusal(structure, "rows that count the slots of their segment")
    block = np.repeat(segment % made.blocks, count)
    offset = structure[made.offsets :].view(np.uint16)[: made.slots].astype(np.int64)
    column = block * made.width + offset // STEP
    if (offset % STEP).any() or (offset >= STEP * made.width).any() or (column >= made.columns).any():
        raise _refusal(structure, "columns inside of their blocks")
    return np.repeat(row, count), column


def _refusal(structure: Array, expected: str) -> ValueError:
    return ValueError(f"structure begins with {structure[:6].tolist()} in {len(structure)} words; expected {expected}")

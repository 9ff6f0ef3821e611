"""Masked convolutions in plain numpy: structures that are built and read weight by weight, and the products.

The structure equals the structure of csrc/core/sparse_convolution.h, bit by bit. The products are the dense products of
convolution.py with the weight that structure and values describe.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Pair
from ..sparse_layout import HEADER, ConvolutionShape, SparseConvolutionLayout
from .batch import from_lanes, to_lanes
from .convolution import conv2d_forward, conv2d_grad_input, conv2d_grad_weight

LONGEST = 3  # most weights of a run


def sparse_conv2d_build(
    mask: Array,
    structure: Array,
    order: Array,
    structure_t: Array,
    order_t: Array,
    size: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
) -> None:
    """Write both structures of the mask, the weight of each slot, and the forward slot of each transposed slot.

    Raises ValueError unless the mask keeps as many weights as `order` holds.
    """
    kept = int(np.count_nonzero(mask))
    if kept != len(order):
        raise ValueError(f"order has shape {order.shape}; expected ({kept},), the weights that mask keeps")
    outs, ins, *kernel = mask.shape
    layer = ConvolutionShape(ins, outs, *map(_pair, (size, kernel, stride, padding, dilation)))
    order[:] = _build(mask, SparseConvolutionLayout(layer, kept, False), structure)
    slots = np.zeros(mask.size, np.uint32)
    slots[order] = np.arange(kept)
    order_t[:] = slots[_build(mask, SparseConvolutionLayout(layer, kept, True), structure_t)]


def _pair(values: Any) -> Pair:
    first, second = values
    return int(first), int(second)


def _build(mask: Array, layout: SparseConvolutionLayout, structure: Array) -> Array:
    """Write the structure, and return the weight of each slot."""
    weights, runs = _runs(mask, layout)
    part, block = runs.row // layout.part, runs.channel // layout.block
    sizes = np.zeros((layout.blocks, layout.rows), np.int64)
    np.add.at(sizes, (block, runs.row), runs.length)
    size = sizes[block, runs.row]
    by_slot = np.lexsort((runs.kind, runs.row, -size, block, part))
    structure[:] = 0
    structure[:HEADER] = layout.header
    starts = (runs.channel - block * layout.block) * layout.plane + runs.cell
    parts = _Parts(structure, layout)
    parts.runs[: len(starts)] = starts[by_slot]
    _write_lists(parts, layout, sizes, runs, block)
    return _spread(runs.first[by_slot], runs.length[by_slot], weights)


class _Runs(NamedTuple):
    """Runs of weights whose cells lie side by side. Each array has one value for a run.

    `cell` is the first cell of a run, and `first` says where its first weight stands among all weights.
    """

    row: Array
    channel: Array
    cell: Array
    length: Array
    kind: Array
    first: Array


def _runs(mask: Array, layout: SparseConvolutionLayout) -> tuple[Array, _Runs]:
    """Return the weights by row, channel and cell, and the runs that they form."""
    taps = layout.layer.taps
    phase, offset = (np.array([of(tap) for tap in range(taps)], np.int64) for of in (layout.row_phase, layout.offset))
    weights = np.flatnonzero(mask)
    out, into, tap = np.unravel_index(weights, (*mask.shape[:2], taps)) if mask.size else (weights,) * 3
    row, channel = (into * layout.row_phases + phase[tap], out) if layout.is_transposed else (out, into)
    sorted_by = np.lexsort((offset[tap], channel, row))
    weights, row, channel, tap = (array[sorted_by] for array in (weights, row, channel, tap))
    if layout.is_whole:
        kind = 8 - tap if layout.is_transposed else tap
        return weights, _Runs(row, channel, 0 * tap, 0 * tap + 1, kind, np.arange(len(weights)))
    cell = offset[tap]
    joins = (np.diff(row) == 0) & (np.diff(channel) == 0) & (np.diff(cell) == 1)
    places = np.arange(len(weights))
    chains = np.flatnonzero(np.concatenate([[True], ~joins])[: len(weights)])
    within = places - np.repeat(chains, np.diff(np.append(chains, len(weights))))
    first = np.flatnonzero(within % LONGEST == 0)
    length = np.diff(np.append(first, len(weights)))
    return weights, _Runs(row[first], channel[first], cell[first], length, LONGEST - length, first)


def _spread(first: Array, length: Array, values: Array) -> Array:
    """Return values[first], values[first + 1], ... of each run, `length` values for each run."""
    ends = np.cumsum(length)
    return values[np.repeat(first - (ends - length), length) + np.arange(ends[-1] if len(ends) else 0)]


class _Parts:
    """Views of the parts of a structure."""

    def __init__(self, structure: Array, layout: SparseConvolutionLayout) -> None:
        self._layout = layout
        self._lists = structure[layout.lists_at : layout.runs_at].view(np.uint16)
        self.cells = structure[HEADER : layout.lists_at].reshape(-1, 3)  # first slot, first run, lists that are filled
        self.runs = structure[layout.runs_at :].view(np.uint16)

    def lists(self, part: int, block: int) -> Array:
        """Return the lists of a part and a block, [rows of the part, words]. A list is the row, then the count of each
        kind.
        """
        layout = self._layout
        rows = min(layout.part, layout.rows - part * layout.part)
        first, size = part * layout.part * layout.blocks + block * rows, 2 * layout.list_words
        return self._lists[first * size : (first + rows) * size].reshape(rows, size)


def _write_lists(parts: _Parts, layout: SparseConvolutionLayout, sizes: Array, runs: _Runs, block: Array) -> None:
    """Write each cell and its lists. Rows with most weights come first, and rows with equally many by number."""
    counts = np.zeros((layout.blocks, layout.rows, layout.kinds), np.int64)
    np.add.at(counts, (block, runs.row, runs.kind), 1)
    slot = start = 0
    for number, (part, of_block) in enumerate(np.ndindex(layout.parts, layout.blocks)):
        lists = parts.lists(part, of_block)
        first = part * layout.part
        rows = np.argsort(-sizes[of_block, first : first + len(lists)], kind="stable")
        found = counts[of_block, first + rows]
        lists[:, 0], lists[:, 1 : 1 + layout.kinds] = rows, found
        here = sizes[of_block, first + rows]
        parts.cells[number] = slot, start, np.count_nonzero(here)
        slot, start = slot + here.sum(), start + found.sum()


# ---- reading one ----------------------------------------------------------------------------------------------------


def _order(structure: Array, layout: SparseConvolutionLayout, name: str) -> Array:
    """Return the weight of each slot. Raises ValueError if the structure is corrupt or is of another layer or mask."""
    weights = _weights(structure, layout) if structure[:HEADER].tolist() == layout.header else None
    if weights is None or len(weights) != layout.count or len(np.unique(weights)) < len(weights):
        raise ValueError(f"{name} is corrupt, or was made for another layer or mask than that of these arguments")
    return weights


def _weights(structure: Array, layout: SparseConvolutionLayout) -> Array | None:
    """Return the weight of each slot, or None if the structure describes an impossible layer."""
    runs = _read_runs(structure, layout)
    if runs is None:
        return None
    taps, length = range(layout.layer.taps), 1 if layout.is_whole else LONGEST - runs.kind
    found = np.full((layout.row_phases, layout.kinds if layout.is_whole else 1, layout.plane + LONGEST), -1)
    for tap in taps:
        kind = 0 if not layout.is_whole else 8 - tap if layout.is_transposed else tap
        found[layout.row_phase(tap), kind, layout.offset(tap)] = tap
    length = np.broadcast_to(length, runs.kind.shape)
    places = np.arange(len(length))
    run = np.repeat(places, length)
    within = np.arange(len(run)) - np.repeat(np.cumsum(length) - length, length)
    row, channel = runs.row[run] // layout.row_phases, runs.channel[run]
    tap = found[runs.row[run] % layout.row_phases, runs.kind[run] * layout.is_whole, runs.cell[run] + within]
    out, into = (channel, row) if layout.is_transposed else (row, channel)
    is_sound = (tap >= 0).all() and (channel < layout.channels).all()
    return (out * layout.layer.ins + into) * layout.layer.taps + tap if is_sound else None


def _read_runs(structure: Array, layout: SparseConvolutionLayout) -> _Runs | None:
    parts, none = _Parts(structure, layout), np.zeros(0, np.int64)
    rows, channels, kinds, cells = [none], [none], [none], [none]
    start = 0
    for number, (part, block) in enumerate(np.ndindex(layout.parts, layout.blocks)):
        lists = parts.lists(part, block)
        if parts.cells[number, 2] > len(lists) or parts.cells[number, 1] != start:
            return None
        filled = lists[: parts.cells[number, 2]].astype(np.int64)
        counts = filled[:, 1 : 1 + layout.kinds]
        if (filled[:, 0] >= len(lists)).any() or start + counts.sum() > len(parts.runs):
            return None
        rows.append(np.repeat(filled[:, 0] + part * layout.part, counts.sum(axis=1)))
        kinds.append(np.repeat(np.tile(np.arange(layout.kinds), len(filled)), counts.ravel()))
        found = parts.runs[start : start + counts.sum()].astype(np.int64)
        channels.append(found // layout.plane + block * layout.block)
        cells.append(found % layout.plane)
        start += counts.sum()
    row, channel, kind, cell = (np.concatenate(each) for each in (rows, channels, kinds, cells))
    return _Runs(row, channel, cell, 0 * row, kind, 0 * row)


def _dense(structure: Array, values: Array, layout: SparseConvolutionLayout, name: str) -> Array:
    """Return the weight [O, I, Y, X] that a structure and its values describe."""
    layer = layout.layer
    weight = np.zeros((layer.outs, layer.ins, *layer.kernel), values.dtype)
    weight.reshape(-1)[_order(structure, layout, name)] = values
    return weight


def sparse_conv2d_forward(
    x: Array,
    structure: Array,
    values: Array,
    bias: Array | None,
    y: Array,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> None:
    """Compute y = conv(x, weight) + bias, with the weight that structure and values describe."""
    layout = _layout(x.shape, y.shape, len(values), (kernel, stride, padding, dilation))
    weight, found = _dense(structure, values, layout, "structure"), np.empty_like(y)
    conv2d_forward(_apart(x, x_lanes), weight, bias, found, stride, padding, dilation, 1)
    to_lanes(found, y_lanes, y)


def sparse_conv2d_grad_input(
    dy: Array,
    structure_t: Array,
    values_t: Array,
    dx: Array,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> None:
    """Set dx to the transposed convolution of dy with the weight, which the transposed structure describes."""
    layout = _layout(dx.shape, dy.shape, len(values_t), (kernel, stride, padding, dilation), is_transposed=True)
    weight, found = _dense(structure_t, values_t, layout, "structure_t"), np.empty_like(dx)
    conv2d_grad_input(_apart(dy, y_lanes), weight, found, stride, padding, dilation, 1, None, None)
    to_lanes(found, x_lanes, dx)


def sparse_conv2d_grad_weight(
    x: Array,
    dy: Array,
    structure: Array,
    gradients: Array,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> None:
    """Compute the gradients of the structure's weights."""
    layout = _layout(x.shape, dy.shape, len(gradients), (kernel, stride, padding, dilation))
    order = _order(structure, layout, "structure")
    dw = np.zeros((dy.shape[1], x.shape[1], *kernel), gradients.dtype)
    seen, sent = _apart(x, x_lanes), _apart(dy, y_lanes)
    conv2d_grad_weight(seen, sent, dw, stride, padding, dilation, 1, None, None, x.shape[1])
    gradients[:] = dw.reshape(-1)[order]


def _apart(side_by_side: Array, lanes: int) -> Array:
    apart = np.empty_like(side_by_side)
    from_lanes(side_by_side, lanes, apart)
    return apart


def _layout(
    x: tuple[int, ...], y: tuple[int, ...], count: int, window: tuple[Pair, ...], is_transposed: bool = False
) -> SparseConvolutionLayout:
    layer = ConvolutionShape(x[1], y[1], _pair(x[2:]), *map(_pair, window))
    return SparseConvolutionLayout(layer, count, is_transposed)

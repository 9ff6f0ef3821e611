"""Linear layers (forward, and the gradients of active features) and sums over channels: csrc/cuda/linear.cuh."""

from __future__ import annotations

from typing import NamedTuple

from .launch import Fields, Ids, KernelArray, Launches, PlannedLaunch, Scratch, launch, tiled
from .structs import declare

declare(
    {
        # The bias is of columns. If hyper is given, out is w, and its `rows` and `placed` columns take a step of plain
        # SGD. A part has `part` terms.
        "linear::ProductArgs: linear_{forward,grad_input,grad_weight}_{wide,narrow}{,_tf32}": (
            "left,right:float[] out:float[]! bias,hyper:float[]? rows,terms,columns,placed:Ids left_pitch right_pitch "
            "out_pitch part"
        ),
        # The parts are [count, rows, columns].
        "linear_sum": "parts:float[] out:float[]! bias:float[]? count rows columns:Ids pitch",
        # A block takes `part` values of a channel.
        "linear::ChannelSumArgs: channel_sum_{planes,columns} of channel_sum": (
            "dy out channels:Ids batch all_channels inner part"
        ),
        # The parts are [channels, count].
        "channel_sum_total": "parts:float[] out:float[]! channels count",
    }
)

_COLUMNS, _WIDE_ROWS, _NARROW_ROWS = 64, 64, 16  # of a tile
_FULL = 128  # blocks that keep most devices busy
_LEAST_TERMS = 64  # of a sum, worth a block
_MANY_TERMS = 256  # from which a second launch, which adds the parts of sums, pays
_LEAST_VALUES = 4096  # of a channel, worth a block


class _Product(NamedTuple):
    """A product out = left right of these rows, terms and columns, as the kernels have it."""

    kernel: str
    left: KernelArray
    right: KernelArray
    rows: Ids
    terms: Ids
    columns: Ids
    out: KernelArray
    placed: Ids  # columns of out
    bias: KernelArray | None = None
    hyper: KernelArray | None = None


def linear_forward(x: KernelArray, weight: KernelArray, bias: KernelArray | None, y: KernelArray) -> Launches:
    (batch, ins), outs = x.shape, _all(weight.shape[0])
    return _in_parts(_Product("linear_forward", x, weight, _all(batch), _all(ins), outs, y, outs, bias))


def linear_grad_input(
    dy: KernelArray, weight: KernelArray, dx: KernelArray, outs: KernelArray | None, ins: KernelArray | None
) -> Launches:
    (batch, all_outs), columns = dy.shape, Ids.of(ins, weight.shape[1])
    terms = Ids.of(outs, all_outs)
    return _in_parts(_Product("linear_grad_input", dy, weight, _all(batch), terms, columns, dx, columns))


def linear_grad_weight(
    x: KernelArray, dy: KernelArray, dw: KernelArray, outs: KernelArray | None, ins: KernelArray | None
) -> Launches:
    (batch, all_outs), columns = dy.shape, Ids.of(ins, x.shape[1])
    rows = Ids.of(outs, all_outs)
    return _whole(_Product("linear_grad_weight", dy, x, rows, _all(batch), columns, dw, _all(columns.count)))


def linear_update(
    x: KernelArray,
    dy: KernelArray,
    w: KernelArray,
    hyper: KernelArray,
    outs: KernelArray | None,
    ins: KernelArray | None,
    cols: KernelArray | None,
) -> Launches:
    (batch, all_outs), columns, placed = dy.shape, Ids.of(ins, x.shape[1]), Ids.of(cols, w.shape[1])
    rows = Ids.of(outs, all_outs)
    return _whole(_Product("linear_grad_weight", dy, x, rows, _all(batch), columns, w, placed, hyper=hyper))


def channel_sum(dy: KernelArray, out: KernelArray, outs: KernelArray | None) -> Launches:
    (batch, all_channels), inner = dy.shape[:2], dy.inner
    channels = Ids.of(outs, all_channels)
    if inner <= 1:
        extents = {"batch": batch * inner, "all_channels": all_channels, "inner": inner, "part": 0}
        grid = -(-channels.count // 32), 1, 1
        return [tiled("channel_sum_columns", grid, 256, dy=dy, out=out, channels=channels, **extents)]
    parts = min(-(-4 * _FULL // max(channels.count, 1)), -(-batch * inner // _LEAST_VALUES)) or 1
    part = -(-batch * inner // parts)
    sums: KernelArray | Scratch = out if parts == 1 else Scratch(0, 4 * channels.count * parts)
    extents = {"batch": batch, "all_channels": all_channels, "inner": inner, "part": part}
    grid = channels.count, parts, 1
    first = tiled("channel_sum_planes", grid, 256, dy=dy, out=sums, channels=channels, **extents)
    if parts == 1:
        return [first]
    total = launch("channel_sum_total", channels.count, parts=sums, out=out, channels=channels.count, count=parts)
    return [first, total]


def _all(count: int) -> Ids:
    return Ids(None, count)


def _whole(product: _Product) -> Launches:
    """Plan a product whose sums are not split, so that its bits do not depend on what is done with it."""
    is_wide = product.rows.count > 2 * _NARROW_ROWS and _tiles(product, _WIDE_ROWS) >= _FULL
    return [_launch(product, is_wide, 1)]


def _in_parts(product: _Product) -> Launches:
    """Plan a product whose sums are split over blocks where there are few tiles and many terms."""
    rows, terms, columns = product.rows.count, product.terms.count, product.columns.count
    most = terms // _LEAST_TERMS if terms >= _MANY_TERMS else 1
    is_wide = rows > 2 * _NARROW_ROWS and 2 * _tiles(product, _WIDE_ROWS) * most >= _FULL
    tiles = _tiles(product, _WIDE_ROWS if is_wide else _NARROW_ROWS)
    parts = min(most, -(-2 * _FULL // max(tiles, 1))) if tiles < _FULL else 1
    if parts == 1:
        return [_launch(product, is_wide, 1)]
    values, sums = rows * columns, Scratch(0, 4 * rows * columns * parts)
    arrays = {"parts": sums, "out": product.out, "bias": product.bias, "columns": product.placed}
    added = launch("linear_sum", values, **arrays, count=parts, rows=rows, pitch=product.out.shape[1])
    return [_launch(product, is_wide, parts, sums), added]


def _tiles(product: _Product, rows: int) -> int:
    return -(-product.rows.count // rows) * -(-product.columns.count // _COLUMNS)


def _launch(product: _Product, is_wide: bool, parts: int, sums: Scratch | None = None) -> PlannedLaunch:
    """Plan the launch of all tiles of the product, or of `parts` products whose sums linear_sum adds."""
    kernel, rows = product.kernel + ("_wide" if is_wide else "_narrow"), _WIDE_ROWS if is_wide else _NARROW_ROWS
    grid = -(-product.columns.count // _COLUMNS), -(-product.rows.count // rows), parts
    sides = {"rows": product.rows, "terms": product.terms, "columns": product.columns}
    pitches = {"left_pitch": product.left.shape[1], "right_pitch": product.right.shape[1]}
    to: Fields = {"out": product.out, "bias": product.bias, "hyper": product.hyper}
    to |= {"placed": product.placed, "out_pitch": product.out.shape[1]}
    if sums:
        columns = product.columns.count
        to = {"out": sums, "bias": None, "hyper": None, "placed": _all(columns), "out_pitch": columns}
    fields: Fields = {"left": product.left, "right": product.right, **to, **sides, **pitches}
    return tiled(kernel, grid, 128, **fields, part=-(-product.terms.count // parts))

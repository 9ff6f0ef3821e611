"""Linear layers (forward, and the gradients of active features) and sums over channels: csrc/cuda/linear.cuh."""

from __future__ import annotations

from typing import NamedTuple

from .launch import Field, Ids, KernelArray, Launches, PlannedLaunch, Scratch, launch, tiled

_COLUMNS, _WIDE_ROWS, _NARROW_ROWS = 64, 64, 16  # of a tile
_FULL = 128  # blocks that keep most devices busy
_LEAST_TERMS = 64  # of a sum, worth a block
_MANY_TERMS = 256  # from which a second launch, which adds the parts of sums, pays
_LEAST_VALUES = 4096  # of a channel, worth a block


class _Product(NamedTuple):
    """A product out = left right of these rows, terms and columns, as the struct ProductArgs has it."""

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
        fields = dy, out, channels, batch * inner, all_channels, inner, 0
        return [tiled("channel_sum_columns", (-(-channels.count // 32), 1, 1), *fields, threads=256)]
    parts = min(-(-4 * _FULL // max(channels.count, 1)), -(-batch * inner // _LEAST_VALUES)) or 1
    part = -(-batch * inner // parts)
    sums: KernelArray | Scratch = out if parts == 1 else Scratch(0, 4 * channels.count * parts)
    values = dy, sums, channels, batch, all_channels, inner, part
    first = tiled("channel_sum_planes", (channels.count, parts, 1), *values, threads=256)
    if parts == 1:
        return [first]
    return [first, launch("channel_sum_total", channels.count, sums, out, channels.count, parts)]


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
    fields = sums, product.out, product.bias, parts, rows, product.placed, product.out.shape[1]
    return [_launch(product, is_wide, parts, sums), launch("linear_sum", values, *fields)]


def _tiles(product: _Product, rows: int) -> int:
    return -(-product.rows.count // rows) * -(-product.columns.count // _COLUMNS)


def _launch(product: _Product, is_wide: bool, parts: int, sums: Scratch | None = None) -> PlannedLaunch:
    """Plan the launch of all tiles of the product, or of `parts` products whose sums linear_sum adds."""
    kernel, rows = product.kernel + ("_wide" if is_wide else "_narrow"), _WIDE_ROWS if is_wide else _NARROW_ROWS
    grid = -(-product.columns.count // _COLUMNS), -(-product.rows.count // rows), parts
    sides = product.rows, product.terms, product.columns
    pitches = product.left.shape[1], product.right.shape[1]
    part = -(-product.terms.count // parts)
    if sums:
        to: tuple[Field, ...] = sums, None, None
        placed, pitch = _all(product.columns.count), product.columns.count
    else:
        to, placed, pitch = (product.out, product.bias, product.hyper), product.placed, product.out.shape[1]
    return tiled(kernel, grid, product.left, product.right, *to, *sides, placed, *pitches, pitch, part, threads=128)

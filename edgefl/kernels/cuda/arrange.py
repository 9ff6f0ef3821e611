"""Channels side by side, padded planes, exchanged axes, and rows of a table: csrc/cuda/arrange.cuh."""

from __future__ import annotations

import math

from .launch import Field, Ids, KernelArray, Launches, launch, tiled

TILE = 32
TABLE_ROWS, TABLE_COLS = 8, 32  # of a block


def put_channels(x: KernelArray, first: int, y: KernelArray) -> Launches:
    inner = x.inner
    width, step = x.shape[1] * inner, y.shape[1] * inner
    return [launch("copy_rows", x.size, x, _behind(y, first * inner), x.shape[0], width, width, step)]


def get_channels(y: KernelArray, first: int, x: KernelArray) -> Launches:
    inner = x.inner
    width, step = x.shape[1] * inner, y.shape[1] * inner
    return [launch("copy_rows", x.size, _behind(y, first * inner), x, x.shape[0], width, step, width)]


def pad_planes(x: KernelArray, top: int, left: int, y: KernelArray) -> Launches:
    return [launch("pad_planes", y.size, x, y, *_room(x, top, left, y))]


def crop_planes(y: KernelArray, top: int, left: int, x: KernelArray) -> Launches:
    return [launch("crop_planes", x.size, y, x, *_room(x, top, left, y))]


def upsample_forward(x: KernelArray, scale: tuple[int, int], y: KernelArray) -> Launches:
    return [launch("upsample_forward", y.size, x, y, *_planes(x), *scale)]


def upsample_backward(dy: KernelArray, scale: tuple[int, int], dx: KernelArray) -> Launches:
    return [launch("upsample_backward", dx.size, dy, dx, *_planes(dx), *scale)]


def transpose(x: KernelArray, y: KernelArray) -> Launches:
    batch, rows, cols = x.shape[:3]
    inner = math.prod(x.shape[3:])
    if inner == 1:
        return transposed(x, y, batch, rows, cols)
    return [launch("transpose_lines", y.size, x, y, batch, rows, cols, inner)]


def transposed(x: Field, y: Field, batch: int, rows: int, cols: int) -> Launches:
    """Set y[b, c, r] to x[b, r, c], whatever the shapes of the two arrays."""
    return [tiled("transpose_values", tiles_of(batch, rows, cols), x, y, batch, rows, cols, 1)]


def embedding_forward(ids: KernelArray, weight: KernelArray, y: KernelArray) -> Launches:
    batch, length = ids.shape
    rows, features = weight.shape
    return [tiled("embedding_forward", tiles_of(batch, length, features), ids, weight, y, length, rows, features)]


def embedding_backward(
    dy: KernelArray, ids: KernelArray, dweight: KernelArray, padding: int, cols: KernelArray | None
) -> Launches:
    rows, count = dweight.shape
    grid = (-(-rows // TABLE_ROWS), -(-count // TABLE_COLS), 1)
    columns = Ids.of(cols, dy.shape[1])
    extents = ids.size, ids.shape[1], rows, dy.shape[1], padding
    return [tiled("embedding_backward", grid, dy, ids, dweight, columns, *extents)]


def _behind(whole: KernelArray, values: int) -> KernelArray:
    return KernelArray(whole.array, whole.offset + values * whole.dtype.itemsize)


def _planes(x: KernelArray) -> tuple[int, int, int]:
    return x.shape[0] * x.shape[1], x.shape[2], x.shape[3]


def _room(x: KernelArray, top: int, left: int, y: KernelArray) -> tuple[int, ...]:
    return *_planes(x), top, left, *y.shape[2:]


def tiles_of(batch: int, rows: int, cols: int) -> tuple[int, int, int]:
    return batch * -(-rows // TILE) * -(-cols // TILE), 1, 1

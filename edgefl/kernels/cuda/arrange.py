"""Channels side by side, padded planes, exchanged axes, and rows of a table: csrc/cuda/arrange.cuh."""

from __future__ import annotations

import math

from .launch import Field, Ids, KernelArray, Launches, PlannedLaunch, launch, tiled
from .structs import declare

declare(
    {
        # A step is the number of values from one row to the next.
        "copy_rows": "source:float[] to:float[]! rows width source_step to_step",
        "RoomArgs: pad_planes crop_planes": (
            "source:float[] to:float[]! planes height width top left out_height out_width"
        ),
        "ScalingArgs: upsample_forward upsample_backward": (
            "source:float[] to:float[]! planes height width scale_h scale_w"
        ),
        "ResampleArgs: resample_forward resample_backward": (
            "source:float[] to:float[]! planes height width top left out_height out_width mode"
        ),
        "TransposeArgs: transpose_values transpose_lines of transpose": "x y batch rows cols inner",
        "embedding_forward": "ids weight y length rows features",
        "EmbeddingBackArgs: embedding_backward": "dy ids dweight cols positions length rows features padding",
    }
)

TILE = 32
TABLE_ROWS, TABLE_COLS = 8, 32  # of a block


def put_channels(x: KernelArray, first: int, y: KernelArray) -> Launches:
    inner = x.inner
    return [_copied(x, _behind(y, first * inner), x, x.shape[1] * inner, y.shape[1] * inner)]


def get_channels(y: KernelArray, first: int, x: KernelArray) -> Launches:
    inner = x.inner
    return [_copied(_behind(y, first * inner), x, x, y.shape[1] * inner, x.shape[1] * inner)]


def pad_planes(x: KernelArray, top: int, left: int, y: KernelArray) -> Launches:
    return [launch("pad_planes", y.size, source=x, to=y, **_room(x, top, left, y))]


def crop_planes(y: KernelArray, top: int, left: int, x: KernelArray) -> Launches:
    return [launch("crop_planes", x.size, source=y, to=x, **_room(x, top, left, y))]


def upsample_forward(x: KernelArray, scale: tuple[int, int], y: KernelArray) -> Launches:
    return [_scaled("upsample_forward", x, y, x, scale)]


def upsample_backward(dy: KernelArray, scale: tuple[int, int], dx: KernelArray) -> Launches:
    return [_scaled("upsample_backward", dy, dx, dx, scale)]


def resample_forward(x: KernelArray, mode: int, top: int, left: int, y: KernelArray) -> Launches:
    return [launch("resample_forward", y.size, source=x, to=y, **_room(x, top, left, y), mode=mode)]


def resample_backward(dy: KernelArray, mode: int, top: int, left: int, dx: KernelArray) -> Launches:
    return [launch("resample_backward", dx.size, source=dy, to=dx, **_room(dx, top, left, dy), mode=mode)]


def transpose(x: KernelArray, y: KernelArray) -> Launches:
    batch, rows, cols = x.shape[:3]
    inner = math.prod(x.shape[3:])
    if inner == 1:
        return transposed(x, y, batch, rows, cols)
    return [launch("transpose_lines", y.size, x=x, y=y, batch=batch, rows=rows, cols=cols, inner=inner)]


def transposed(x: Field, y: Field, batch: int, rows: int, cols: int) -> Launches:
    """Set y[b, c, r] to x[b, r, c], whatever the shapes of the two arrays."""
    grid = tiles_of(batch, rows, cols)
    return [tiled("transpose_values", grid, x=x, y=y, batch=batch, rows=rows, cols=cols, inner=1)]


def embedding_forward(ids: KernelArray, weight: KernelArray, y: KernelArray) -> Launches:
    batch, length = ids.shape
    rows, features = weight.shape
    grid = tiles_of(batch, length, features)
    extents = {"length": length, "rows": rows, "features": features}
    return [tiled("embedding_forward", grid, ids=ids, weight=weight, y=y, **extents)]


def embedding_backward(
    dy: KernelArray, ids: KernelArray, dweight: KernelArray, padding: int, cols: KernelArray | None
) -> Launches:
    rows, count = dweight.shape
    grid = (-(-rows // TABLE_ROWS), -(-count // TABLE_COLS), 1)
    columns, features = Ids.of(cols, dy.shape[1]), dy.shape[1]
    extents = {"positions": ids.size, "length": ids.shape[1], "rows": rows, "features": features, "padding": padding}
    return [tiled("embedding_backward", grid, dy=dy, ids=ids, dweight=dweight, cols=columns, **extents)]


def _copied(source: KernelArray, to: KernelArray, whole: KernelArray, source_step: int, to_step: int) -> PlannedLaunch:
    """Plan a copy of the rows of `whole`, which is one of the two arrays."""
    rows, width = whole.shape[0], whole.shape[1] * whole.inner
    steps = {"source_step": source_step, "to_step": to_step}
    return launch("copy_rows", whole.size, source=source, to=to, rows=rows, width=width, **steps)


def _scaled(
    kernel: str, source: KernelArray, to: KernelArray, small: KernelArray, scale: tuple[int, int]
) -> PlannedLaunch:
    return launch(kernel, to.size, source=source, to=to, **_planes(small), scale_h=scale[0], scale_w=scale[1])


def _behind(whole: KernelArray, values: int) -> KernelArray:
    return KernelArray(whole.array, whole.offset + values * whole.dtype.itemsize)


def _planes(x: KernelArray) -> dict[str, int]:
    return {"planes": x.shape[0] * x.shape[1], "height": x.shape[2], "width": x.shape[3]}


def _room(x: KernelArray, top: int, left: int, y: KernelArray) -> dict[str, int]:
    return {**_planes(x), "top": top, "left": left, "out_height": y.shape[2], "out_width": y.shape[3]}


def tiles_of(batch: int, rows: int, cols: int) -> tuple[int, int, int]:
    return batch * -(-rows // TILE) * -(-cols // TILE), 1, 1

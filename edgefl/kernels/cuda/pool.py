"""Max and average pools: csrc/cuda/pool.cuh and pool_adaptive.cuh."""

from __future__ import annotations

from dataclasses import replace

from ..arrays import Pair
from .divisor import divisor
from .launch import Fields, Ids, KernelArray, Launches, StructValues, launch, struct_values
from .norm_runs import Runs
from .structs import declare

declare(
    {
        "pool::Axis": "size result kernel stride padding by_stride:Divisor",
        # These are the cells of the planes [b, c] with c among channels, each rows x columns.
        "pool::Chosen": "channels:Ids all_channels rows columns count by_channels,by_rows,by_columns:Divisor",
        "pool::PoolArgs: maxpool_forward avgpool_forward": (
            "x:float[] y:float[]! codes:uint8[]?! vertical,horizontal:pool::Axis lanes count "
            "by_lanes,by_columns,by_rows:Divisor with_padding"
        ),
        "pool::PoolBackArgs: maxpool_backward avgpool_backward": (
            "dy:float[] codes:uint8[]? dx:float[]! vertical,horizontal:pool::Axis chosen:pool::Chosen lanes "
            "by_lanes:Divisor with_padding"
        ),
        # The source is x or dy. The chosen cells are cells of `to`, and rows and columns are the source's.
        "pool::AdaptiveArgs: adaptive_avgpool_forward adaptive_avgpool_backward": (
            "source:float[] to:float[]! chosen:pool::Chosen rows columns"
        ),
        "plane_means": "x:float[] y:float[]! planes:runs::Runs",
    }
)


def maxpool_forward(
    x: KernelArray, y: KernelArray, codes: KernelArray | None, kernel: Pair, stride: Pair, padding: Pair
) -> Launches:
    return _forward("maxpool_forward", x, y, codes, (kernel, stride, padding))


def maxpool_lanes_forward(
    x: KernelArray, y: KernelArray, codes: KernelArray | None, kernel: Pair, stride: Pair, padding: Pair
) -> Launches:
    return _forward("maxpool_forward", x, y, codes, (kernel, stride, padding), x.shape[4])


def maxpool_backward(
    dy: KernelArray,
    codes: KernelArray,
    dx: KernelArray,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    channels: KernelArray | None,
) -> Launches:
    return _backward("maxpool_backward", dy, codes, dx, (kernel, stride, padding), channels)


def maxpool_lanes_backward(
    dy: KernelArray, codes: KernelArray, dx: KernelArray, kernel: Pair, stride: Pair, padding: Pair
) -> Launches:
    return _backward("maxpool_backward", dy, codes, dx, (kernel, stride, padding), None, dx.shape[4])


def avgpool_forward(
    x: KernelArray, y: KernelArray, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool
) -> Launches:
    if tuple(kernel) == x.shape[2:] and y.inner == 1 and not any(padding):
        return _means(x, y)
    return _forward("avgpool_forward", x, y, None, (kernel, stride, padding), with_padding=count_include_pad)


def avgpool_backward(
    dy: KernelArray,
    dx: KernelArray,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
    channels: KernelArray | None,
) -> Launches:
    window = (kernel, stride, padding)
    return _backward("avgpool_backward", dy, None, dx, window, channels, with_padding=count_include_pad)


def adaptive_avgpool_forward(x: KernelArray, y: KernelArray) -> Launches:
    return _means(x, y) if y.inner == 1 else _adaptive("adaptive_avgpool_forward", x, y, None)


def adaptive_avgpool_backward(dy: KernelArray, dx: KernelArray, channels: KernelArray | None) -> Launches:
    return _adaptive("adaptive_avgpool_backward", dy, dx, channels)


# ---- their fields ----------------------------------------------------------------------------------------------------


def _forward(
    kernel: str,
    x: KernelArray,
    y: KernelArray,
    codes: KernelArray | None,
    window: tuple[Pair, Pair, Pair],
    lanes: int = 1,
    with_padding: bool = False,
) -> Launches:
    rows, columns = y.shape[2:4]
    divisors = {"by_lanes": divisor(lanes), "by_columns": divisor(columns), "by_rows": divisor(rows)}
    places: Fields = {"lanes": lanes, "count": y.size, "with_padding": with_padding, **divisors}
    return [launch(kernel, y.size, x=x, y=y, codes=codes, **_axes(x, y, window), **places)]


def _backward(
    kernel: str,
    dy: KernelArray,
    codes: KernelArray | None,
    dx: KernelArray,
    window: tuple[Pair, Pair, Pair],
    channels: KernelArray | None,
    lanes: int = 1,
    with_padding: bool = False,
) -> Launches:
    chosen, count = _chosen(dx, channels)
    axes = _axes(dx, dy, window)
    places: Fields = {"chosen": chosen, "lanes": lanes, "by_lanes": divisor(lanes), "with_padding": with_padding}
    return [launch(kernel, count * lanes, dy=dy, codes=codes, dx=dx, **axes, **places)]


def _adaptive(kernel: str, read: KernelArray, written: KernelArray, channels: KernelArray | None) -> Launches:
    chosen, count = _chosen(written, channels)
    rows, columns = read.shape[2:]
    return [launch(kernel, count, source=read, to=written, chosen=chosen, rows=rows, columns=columns)]


def _means(x: KernelArray, y: KernelArray) -> Launches:
    batch, channels = x.shape[:2]
    planes = Runs(Ids(None, channels), batch, channels, size=1, rows=1, step=1, inner=x.inner)
    planes = replace(planes.shared(), pieces=1)
    return [planes.launch("plane_means", x=x, y=y, planes=planes.struct)]


def _axes(x: KernelArray, y: KernelArray, window: tuple[Pair, Pair, Pair]) -> Fields:
    return {"vertical": _axis(x, y, window, 0), "horizontal": _axis(x, y, window, 1)}


def _axis(x: KernelArray, y: KernelArray, window: tuple[Pair, Pair, Pair], axis: int) -> StructValues:
    kernel, stride, padding = (pair[axis] for pair in window)
    extents = {"size": x.shape[2 + axis], "result": y.shape[2 + axis], "kernel": kernel, "padding": padding}
    return struct_values("pool::Axis", **extents, stride=stride, by_stride=divisor(stride))


def _chosen(x: KernelArray, channels: KernelArray | None) -> tuple[StructValues, int]:
    """Return the cells in the planes of channels, and the number of these cells."""
    batch, all_channels, rows, columns = x.shape[:4]
    ids = Ids.of(channels, all_channels)
    count = batch * ids.count * rows * columns
    extents = {"all_channels": all_channels, "rows": rows, "columns": columns, "count": count}
    divisors = {"by_channels": divisor(ids.count), "by_rows": divisor(rows), "by_columns": divisor(columns)}
    return struct_values("pool::Chosen", channels=ids, **extents, **divisors), count

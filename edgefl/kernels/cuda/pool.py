"""Max and average pools: csrc/cuda/pool.cuh and pool_adaptive.cuh."""

from __future__ import annotations

from dataclasses import replace

from ..arrays import Pair
from .divisor import divisor
from .launch import Field, Ids, KernelArray, Launches, launch
from .norm_runs import Runs


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
    places = (lanes, y.size, *divisor(lanes), *divisor(columns), *divisor(rows))
    return [launch(kernel, y.size, x, y, codes, *_axes(x, y, window), *places, with_padding)]


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
    return [launch(kernel, count * lanes, dy, codes, dx, *axes, *chosen, lanes, *divisor(lanes), with_padding)]


def _adaptive(kernel: str, read: KernelArray, written: KernelArray, channels: KernelArray | None) -> Launches:
    chosen, count = _chosen(written, channels)
    return [launch(kernel, count, read, written, *chosen, *read.shape[2:])]


def _means(x: KernelArray, y: KernelArray) -> Launches:
    batch, channels = x.shape[:2]
    planes = Runs(Ids(None, channels), batch, channels, size=1, rows=1, step=1, inner=x.inner)
    planes = replace(planes.shared(), pieces=1)
    return [planes.launch("plane_means", x, y, *planes.fields)]


def _axes(x: KernelArray, y: KernelArray, window: tuple[Pair, Pair, Pair]) -> tuple[Field, ...]:
    """Return the fields of the vertical and the horizontal axis.

    They are size, result, kernel, stride, padding, and the divisor by the stride.
    """
    return tuple(
        field
        for axis in (0, 1)
        for field in (x.shape[2 + axis], y.shape[2 + axis], *(pair[axis] for pair in window), *divisor(window[1][axis]))
    )


def _chosen(x: KernelArray, channels: KernelArray | None) -> tuple[tuple[Field, ...], int]:
    """Return the fields of the cells in the planes of channels, and the number of these cells."""
    batch, all_channels, rows, columns = x.shape[:4]
    ids = Ids.of(channels, all_channels)
    count = batch * ids.count * rows * columns
    divisors = (*divisor(ids.count), *divisor(rows), *divisor(columns))
    return (ids, all_channels, rows, columns, count, *divisors), count

"""Convolutions: forward, and the gradients of active channels: csrc/cuda/convolution.cuh and depthwise.cuh.

The tiles of a layer, and the number of blocks over which the depth of a tile is split, follow from its shapes alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..arrays import Pair
from .launch import Field, Ids, KernelArray, Launches, PlannedLaunch, Scratch, tiled

PROCESSORS, THREADS_EACH = 128, 512  # of a large GPU, and what keeps one of them busy
SPLITS, LEAST_DEPTH = tuple(2**i for i in range(8)), 128  # blocks that may share a depth, of at least so much each
MOST_PARTS = 16 << 20  # bytes
PART_COST = 80  # of writing, reading and adding a part of a sum, in its terms
STRIP, STRIPS = 4, 256  # cells of a thread, threads of a block: depthwise.cuh
TAPS, LEAST_CELLS = 9, 2048  # of a block that sums a depthwise gradient


class Tile(NamedTuple):
    """The tile of sums of a block. `throughput` estimates its speed on a full GPU, relative to the fastest tile."""

    name: str
    rows: int
    columns: int
    threads: int
    throughput: float


TILES = (
    Tile("huge", 128, 128, 256, 1.0),
    Tile("long", 64, 128, 128, 0.9),
    Tile("square", 64, 64, 128, 0.75),
    Tile("flat", 32, 64, 128, 0.5),
)


class MatmulTiling(NamedTuple):
    """The tiles of each of `copies` products. `splits` is the number of blocks that share the depth of a tile."""

    tile: Tile
    rows: int
    columns: int
    copies: int
    splits: int

    @property
    def blocks(self) -> int:
        return self.rows * self.columns * self.copies * self.splits

    def throughput(self, depth: int) -> float:
        """Estimate the useful sums in a unit of time, up to a factor that all tilings of a layer have in common."""
        tile, each = self.tile, self.blocks / PROCESSORS
        balance = min(each, each / (each + 0.5))  # the last processor has half a block more than the average
        hiding = min(1.0, max(each, 1.0) * tile.threads / THREADS_EACH) ** 0.5
        parts = PART_COST * self.splits if self.splits > 1 else 0
        return (
            tile.throughput
            * balance
            * hiding
            * depth
            / (depth + parts)
            / (self.rows * self.columns * tile.rows * tile.columns)
        )


def tiling(rows: int, columns: int, depth: int, copies: int = 1) -> MatmulTiling:
    """Return the tiling that should be fastest for `copies` products of rows x columns sums over a depth."""
    most = max(1, min(depth // LEAST_DEPTH, MOST_PARTS // max(1, 4 * rows * columns * copies)))
    all_tilings = (
        MatmulTiling(tile, -(-rows // tile.rows), -(-columns // tile.columns), copies, splits)
        for tile in TILES
        for splits in SPLITS
        if splits <= most
    )
    return max(all_tilings, key=lambda found: found.throughput(max(depth, 1)) if found.blocks else 0)


class ConvolutionExtent(NamedTuple):
    """The struct `Extent` of csrc/cuda/window.cuh: one axis of a convolution."""

    source: int
    target: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def fields(self) -> tuple[int, ...]:
        return (*self, self.stride // math.gcd(self.stride, self.dilation))


Axes = tuple[ConvolutionExtent, ConvolutionExtent]


def _axes(
    source: KernelArray, target: KernelArray, kernel: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair
) -> Axes:
    both = zip(source.shape[2:], target.shape[2:], kernel, stride, padding, dilation, strict=True)
    height, width = (ConvolutionExtent(*axis) for axis in both)
    return height, width


# ---- forward and dx --------------------------------------------------------------------------------------------------


def conv2d_forward(
    x: KernelArray,
    weight: KernelArray,
    bias: KernelArray | None,
    y: KernelArray,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Launches:
    axes = _axes(x, y, weight.shape[2:], stride, padding, dilation)
    rows, depths = Ids.of(None, y.shape[1]), Ids.of(None, x.shape[1])
    return _Pass(x, weight, bias, y, rows, depths, groups, axes, is_back=False).launches()


def conv2d_grad_input(
    dy: KernelArray,
    weight: KernelArray,
    dx: KernelArray,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: KernelArray | None,
    ins: KernelArray | None,
) -> Launches:
    axes = _axes(dy, dx, weight.shape[2:], stride, padding, dilation)
    rows, depths = Ids.of(ins, dx.shape[1]), Ids.of(outs, dy.shape[1])
    return _Pass(dy, weight, None, dx, rows, depths, groups, axes, is_back=True).launches()


class _Pass(NamedTuple):
    """A pass from a source to a target: from x to y forward, from dy to dx backward.

    `rows` are channels of the target, and `depths` are channels of the source.
    """

    source: KernelArray
    weight: KernelArray
    bias: KernelArray | None
    target: KernelArray
    rows: Ids
    depths: Ids
    groups: int
    axes: Axes
    is_back: bool

    def launches(self) -> Launches:
        if self.groups > 1 and self.weight.shape[1] == 1:
            return self._depthwise()
        rows = min(self.rows.count, self.target.shape[1] // self.groups)
        depth = self.depths.count * math.prod(self.weight.shape[2:]) // (self.groups * self._phases)
        found = tiling(rows, self._columns, depth, self.groups * self._phases)
        kernel = f"convolution_{found.tile.name}"
        if found.splits == 1:
            return [
                tiled(kernel, (found.blocks, 1, 1), *self._struct(None, *found[1:3], 1), threads=found.tile.threads)
            ]
        parts = Scratch(0, 4 * self._values * found.splits)
        fields = self._struct(parts, *found[1:3], found.splits)
        sums = parts, self.bias, self.target, self.rows, len(self.target.array), self.target.shape[1]
        return [
            tiled(kernel, (found.blocks, 1, 1), *fields, threads=found.tile.threads),
            _sum_parts(self._values, *sums, self.target.inner, found.splits),
        ]

    def _depthwise(self) -> Launches:
        height, width = self._cells
        tiles = -(-self.target.shape[0] * -(-height // STRIP) * width // STRIPS)
        blocks = tiles * self._phases * self.rows.count
        return [tiled("convolution_depthwise", (blocks, 1, 1), *self._struct(None, 1, tiles, 1), threads=STRIPS)]

    def _struct(self, parts: Scratch | None, row_tiles: int, column_tiles: int, splits: int) -> tuple[Field, ...]:
        batch, channels = self.target.shape[:2]
        out_apart, in_apart = math.prod(self.weight.shape[1:]), math.prod(self.weight.shape[2:])
        apart = (in_apart, out_apart) if self.is_back else (out_apart, in_apart)
        arrays = self.source, self.weight, self.bias, self.target, parts, self.rows, self.depths
        extents = *self.axes[0].fields, *self.axes[1].fields
        layer = batch, channels, self.source.shape[1], self.groups, *extents, *apart, self.is_back, self._phases
        return *arrays, *layer, row_tiles, column_tiles, splits

    @property
    def _phases(self) -> int:
        """The number of classes of target cells, by their remainder modulo the stride. A class reads equal taps."""
        return self.axes[0].stride * self.axes[1].stride if self.is_back else 1

    @property
    def _cells(self) -> tuple[int, int]:
        """Height and width of the first phase, which has the most cells."""
        height, width = (-(-axis.target // (axis.stride if self.is_back else 1)) for axis in self.axes)
        return height, width

    @property
    def _columns(self) -> int:
        return self.target.shape[0] * math.prod(self._cells)

    @property
    def _values(self) -> int:
        return self.target.shape[0] * self.rows.count * self.target.inner


# ---- dw --------------------------------------------------------------------------------------------------------------


def conv2d_grad_weight(
    x: KernelArray,
    dy: KernelArray,
    dw: KernelArray,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    outs: KernelArray | None,
    ins: KernelArray | None,
    in_channels: int,
) -> Launches:
    axes = _axes(x, dy, dw.shape[2:], stride, padding, dilation)
    rows, kernel = Ids.of(outs, dy.shape[1]), math.prod(dw.shape[2:])
    depth = dy.shape[0] * dy.inner
    if groups > 1 and in_channels == groups:
        tiles, name, threads = (-(-kernel // TAPS), 1), "convolution_depthwise_weight", STRIPS
        splits = max(1, min(4 * PROCESSORS // max(1, rows.count * tiles[0]), depth // LEAST_CELLS, SPLITS[-1]))
        blocks = tiles[0] * rows.count * splits
    else:
        found = tiling(min(rows.count, dy.shape[1] // groups), math.prod(dw.shape[1:]), depth, groups)
        tiles, name, threads = found[1:3], f"convolution_weight_{found.tile.name}", found.tile.threads
        blocks, splits = found.blocks, found.splits
    parts = Scratch(0, 4 * dw.size * splits) if splits > 1 else None
    chosen = rows, Ids.of(ins, dw.shape[1])
    layer = dy.shape[0], x.shape[1], dy.shape[1], groups, *axes[0].fields, *axes[1].fields, *tiles, splits
    product = tiled(name, (blocks if dw.size else 0, 1, 1), x, dy, parts or dw, *chosen, *layer, threads=threads)
    if parts is None:
        return [product]
    return [product, _sum_parts(dw.size, parts, None, dw, Ids(None, 1), 1, 1, dw.size, splits)]


def _sum_parts(values: int, *fields: Field) -> PlannedLaunch:
    return tiled("convolution_sum_parts", (-(-values // 32), 1, 1), *fields, threads=256)

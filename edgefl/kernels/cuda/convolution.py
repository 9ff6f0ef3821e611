"""Convolutions: forward, and the gradients of active channels: csrc/cuda/convolution.cuh and depthwise.cuh.

The tiles of a layer, and the number of blocks over which the depth of a tile is split, follow from its shapes alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..arrays import Pair
from .launch import (
    Field,
    Fields,
    Ids,
    KernelArray,
    Launches,
    PlannedLaunch,
    Scratch,
    StructValues,
    fours,
    launch,
    struct_values,
    tiled,
)
from .structs import declare

declare(
    {
        # A tap meets the same phase after tap_step taps, which are stride / gcd(stride, dilation).
        "convolution::Extent": "source target kernel stride padding dilation tap_step",
        # The source is x forward and dy backward. Sums of `splits` parts of the depth go to parts, if they are given.
        # Weights lie row_apart and depth_apart values apart.
        "convolution::WindowArgs: convolution_{huge,long,square,flat}{,_tf32} convolution_depthwise": (
            "source,weight:float[] bias:float[]? target:float[]! parts:float[]?! rows,depths:Ids batch target_channels "
            "source_channels groups h,w:convolution::Extent row_apart depth_apart is_back phases row_tiles "
            "column_tiles splits"
        ),
        # The kernel writes dw, or parts of it [splits, outs, ins, taps]. The ids `ins` are of a group.
        "convolution::WeightArgs: convolution_weight_{huge,long,square,flat}{,_tf32} convolution_depthwise_weight": (
            "x,dy:float[] dw:float[]! outs,ins:Ids batch x_channels out_channels groups h,w:convolution::Extent "
            "row_tiles column_tiles splits"
        ),
        "convolution::PartsArgs: convolution_{sum,add}_parts": (
            "parts:float[] bias:float[]? target:float[]! rows:Ids batch channels inner splits"
        ),
    }
)

PROCESSORS, THREADS_EACH = 128, 512  # of a large GPU, and what keeps one of them busy
SPLITS, LEAST_DEPTH = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128), 32  # see `tiling`
MOST_PARTS = 32 << 20  # bytes
BEGIN, PART, ADDING = 14, 40, 5e6  # terms to begin a sum, and to write and add a part of it, products to begin adding
MANY_SUMS = 1 << 15  # that a thread for four of them keep a device busy
STRIP, STRIPS = 4, 256  # cells of a thread, threads of a block: depthwise.cuh
TAPS, LEAST_CELLS = 9, 2048  # of a block that sums a depthwise gradient


class Tile(NamedTuple):
    """The tile of sums of a block. `throughput` is its speed on a full GPU, relative to the fastest tile."""

    name: str
    rows: int
    columns: int
    threads: int
    throughput: float


TILES = (
    Tile("huge", 128, 128, 256, 1.0),
    Tile("long", 64, 128, 128, 0.91),
    Tile("square", 64, 64, 128, 0.83),
    Tile("flat", 32, 64, 128, 0.67),
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

    def cost(self, sums: int, depth: int) -> float:
        """Estimate the time for `sums` sums over a depth, in products of a full GPU.

        The form and the numbers were fitted to 172 products of VGG11, ResNet18, MobileNetV2 and a transformer in every
        tiling on an H200 (bench/cuda_record/tilings.jsonl). The chosen tilings take 3 % longer than the fastest.
        """
        tile, each = self.tile, self.blocks / PROCESSORS
        balance = (each / math.ceil(each)) ** 2 * each / (each + 0.12)  # a processor takes whole blocks
        hiding = min(1.0, max(each, 1.0) * tile.threads / THREADS_EACH) ** 0.45
        products = self.blocks * tile.rows * tile.columns * (depth / self.splits + BEGIN)
        adding = PART * sums * self.splits + ADDING if self.splits > 1 else 0
        return products / (tile.throughput * balance * hiding) + adding


def tiling(rows: int, columns: int, depth: int, copies: int = 1) -> MatmulTiling:
    """Return the tiling that should be fastest for `copies` products of rows x columns sums over a depth.

    Blocks share a depth of which each has LEAST_DEPTH terms or more, and whose parts have room in MOST_PARTS.
    """
    sums = rows * columns * copies
    most = max(1, min(depth // LEAST_DEPTH, MOST_PARTS // max(1, 4 * sums)))
    all_tilings = (
        MatmulTiling(tile, -(-rows // tile.rows), -(-columns // tile.columns), copies, splits)
        for tile in TILES
        for splits in SPLITS
        if splits <= most
    )
    return min(all_tilings, key=lambda found: found.cost(sums, max(depth, 1)) if found.blocks else 0)


class ConvolutionExtent(NamedTuple):
    """One axis of a convolution."""

    source: int
    target: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def values(self) -> StructValues:
        tap_step = self.stride // math.gcd(self.stride, self.dilation)
        return struct_values("convolution::Extent", **self._asdict(), tap_step=tap_step)


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
            fields = self._named_fields(None, found.rows, found.columns, 1)
            return [tiled(kernel, (found.blocks, 1, 1), found.tile.threads, **fields)]
        parts = Scratch(0, 4 * self._values * found.splits)
        fields = self._named_fields(parts, found.rows, found.columns, found.splits)
        batch, channels = self.target.shape[:2]
        extents = {"batch": batch, "channels": channels, "inner": self.target.inner}
        sums: Fields = {"parts": parts, "bias": self.bias, "target": self.target, "rows": self.rows}
        return [
            tiled(kernel, (found.blocks, 1, 1), found.tile.threads, **fields),
            _sum_parts(self._values, **sums, **extents, splits=found.splits),
        ]

    def _depthwise(self) -> Launches:
        height, width = self._cells
        tiles = -(-self.target.shape[0] * -(-height // STRIP) * width // STRIPS)
        blocks = tiles * self._phases * self.rows.count
        return [tiled("convolution_depthwise", (blocks, 1, 1), STRIPS, **self._named_fields(None, 1, tiles, 1))]

    def _named_fields(self, parts: Scratch | None, row_tiles: int, column_tiles: int, splits: int) -> Fields:
        out_apart, in_apart = math.prod(self.weight.shape[1:]), math.prod(self.weight.shape[2:])
        row_apart, depth_apart = (in_apart, out_apart) if self.is_back else (out_apart, in_apart)
        return {
            "source": self.source,
            "weight": self.weight,
            "bias": self.bias,
            "target": self.target,
            "parts": parts,
            "rows": self.rows,
            "depths": self.depths,
            "batch": self.target.shape[0],
            "target_channels": self.target.shape[1],
            "source_channels": self.source.shape[1],
            "groups": self.groups,
            "h": self.axes[0].values,
            "w": self.axes[1].values,
            "row_apart": row_apart,
            "depth_apart": depth_apart,
            "is_back": self.is_back,
            "phases": self._phases,
            "row_tiles": row_tiles,
            "column_tiles": column_tiles,
            "splits": splits,
        }

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
    rows, columns = Ids.of(outs, dy.shape[1]), Ids.of(ins, dw.shape[1])
    return _weight_launches(
        x, dy, dw, dw.shape, rows, columns, (stride, padding, dilation), groups, is_depthwise=in_channels == groups
    )


def weight_gradient(
    x: KernelArray,
    dy: KernelArray,
    to: Scratch,
    shape: tuple[int, ...],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
) -> Launches:
    """Plan the gradient of a whole weight of this shape, of a convolution without groups."""
    all_rows, all_columns = Ids(None, shape[0]), Ids(None, shape[1])
    return _weight_launches(x, dy, to, shape, all_rows, all_columns, (stride, padding, dilation), 1, False)


def _weight_launches(
    x: KernelArray,
    dy: KernelArray,
    dw: KernelArray | Scratch,
    shape: tuple[int, ...],
    rows: Ids,
    columns: Ids,
    window: tuple[Pair, Pair, Pair],
    groups: int,
    is_depthwise: bool,
) -> Launches:
    axes, size = _axes(x, dy, shape[2:], *window), math.prod(shape)
    kernel, depth = math.prod(shape[2:]), dy.shape[0] * dy.inner
    if groups > 1 and is_depthwise:
        name, threads, taps = "convolution_depthwise_weight", STRIPS, -(-kernel // TAPS)
        splits = max(1, min(4 * PROCESSORS // max(1, rows.count * taps), depth // LEAST_CELLS, SPLITS[-1]))
        tiles, blocks = {"row_tiles": taps, "column_tiles": 1}, taps * rows.count * splits
    else:
        found = tiling(min(rows.count, dy.shape[1] // groups), math.prod(shape[1:]), depth, groups)
        tiles = {"row_tiles": found.rows, "column_tiles": found.columns}
        name, threads = f"convolution_weight_{found.tile.name}", found.tile.threads
        blocks, splits = found.blocks, found.splits
    before = dw.offset + dw.size if isinstance(dw, Scratch) else 0
    parts = Scratch(before, 4 * size * splits) if splits > 1 else None
    arrays: Fields = {"x": x, "dy": dy, "dw": parts or dw, "outs": rows, "ins": columns}
    channels = {"batch": dy.shape[0], "x_channels": x.shape[1], "out_channels": dy.shape[1], "groups": groups}
    layer: Fields = {**channels, "h": axes[0].values, "w": axes[1].values, **tiles, "splits": splits}
    product = tiled(name, (blocks if size else 0, 1, 1), threads, **arrays, **layer)
    if parts is None:
        return [product]
    whole: Fields = {"rows": Ids(None, 1), "batch": 1, "channels": 1, "inner": size}
    return [product, _sum_parts(size, parts=parts, bias=None, target=dw, **whole, splits=splits)]


def _sum_parts(values: int, /, **fields: Field) -> PlannedLaunch:
    """Plan the sums of parts: by eight threads for a value where there are few values, by a thread for four else."""
    if values < MANY_SUMS:
        return tiled("convolution_sum_parts", (-(-values // 32), 1, 1), 256, **fields)
    return launch("convolution_add_parts", fours(values), **fields)

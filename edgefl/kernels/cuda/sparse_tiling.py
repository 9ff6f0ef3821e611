"""The tiles of a masked layer's source and results that a block of threads takes: csrc/cuda/sparse_tile.cuh.

Tiles are chosen from shapes alone, as the cheapest by an estimate in cycles. The estimate counts what shared memory has
to give, and what blocks of threads wait for where there are too few blocks to hide it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .launch import KernelArray, Scratch, StructValues, struct_values
from .structs import declare, members

declare(
    {
        # Images are [batch, channels, height, width], or `lanes` of them lie side by side.
        "SparseImages": "data:float[] channels height width lanes",
        # The layer is one correlation (csrc/core/sparse_convolution.h), in which rows of results sum over channels of a
        # source. There are `blocks` blocks of `block` channels, each cut into `cuts` tiles of `cut` channels. If `said`
        # is given, it has the blocks as the structure has them, of `block` channels at most. A row has down x along
        # results. The phases are the source's, and the extents are the largest shifts. Each phase of the results is a
        # row.
        "SparseLayer": (
            "batch rows channels block blocks cut cuts said:SparseBlocks[]? down along step_down step_along "
            "start_down start_along phases_down phases_along extent_down extent_along results_down results_along"
        ),
        # A tile is a rectangle of positions, of `groups` of 4 or 8 images, and their source with its margin. A row has
        # `pitch` cells, and a cell has group_pitch positions. The positions have `lanes` threads, and each 256 / lanes
        # threads take a row.
        "SparseTiling": "down along groups pitch group_pitch lanes tiles_down tiles_along tiles_images",
        # A call unpacks to entries [count]. The lists [tiles of channels, rows] say which weights of a row read a tile.
        # The cells [parts, tiles of channels] say it of so many rows. A Linear layer has blocks, too.
        "SparseUnpacked": "entries:SparseEntry[]! lists,cells:SparseList[]! blocks:SparseBlocks[]!",
    }
)

THREADS, POSITIONS, LISTS, FEWEST_LANES = 256, 2048, 512, 4
PROCESSORS, RESIDENT = 128, 2  # multiprocessors, and blocks on each. Other numbers change times and no result
LATENCY, PRODUCT_LATENCY = (
    800,
    20,
)  # cycles until a thread has filled its place of a tile, and until it has read a weight's places
UNPACKING = 0.005  # cycles of a device for a weight that is looked at for each of the tiles of its block
LOAD = 6  # of a warp to fill a place a thread


class Kind(NamedTuple):
    """A kernel, with the number of rows of a thread and the number of quadruples of images."""

    name: str
    rows: int
    quads: int


PRODUCTS = Kind("sparse_product_large", 8, 2), Kind("sparse_product_medium", 4, 1), Kind("sparse_product_small", 1, 1)
GRADIENTS = Kind("sparse_gradient_large", 24, 2), Kind("sparse_gradient_small", 24, 1)


@dataclass(frozen=True)
class Images:
    """Images with `lanes` side by side. `data` is where their values lie instead of `at`."""

    at: KernelArray
    lanes: int = 1
    data: Scratch | None = None  # where they are instead

    @property
    def struct(self) -> StructValues:
        height, width = self.at.shape[2:] or (1, 1)
        extents = {"channels": self.at.shape[1], "height": height, "width": width, "lanes": self.lanes}
        return struct_values("SparseImages", data=self.data or self.at, **extents)


@dataclass(frozen=True)
class SparseLayer:
    """A layer, as the row SparseLayer describes it. A Linear layer has one position.

    `count` is the number of its weights. `shares` is the number of blocks of threads that each take some of the
    channels, for the same results.
    """

    batch: int
    rows: int
    channels: int
    block: int
    blocks: int
    count: int
    positions: tuple[int, int] = (1, 1)
    steps: tuple[int, int] = (1, 1)
    starts: tuple[int, int] = (0, 0)
    phases: tuple[int, int] = (1, 1)
    extents: tuple[int, int] = (0, 0)
    results: tuple[int, int] = (1, 1)
    cuts: int = 1
    shares: int = 1

    @property
    def cut(self) -> int:
        """The number of channels of a tile."""
        return -(-self.block // self.cuts)

    @property
    def tiles(self) -> int:
        """The number of tiles of channels."""
        return self.blocks * self.cuts

    def struct(self, said: Scratch | None) -> StructValues:
        """Return the struct. `said` is where a structure's own blocks are written."""
        names = "step", "start", "phases", "extent", "results"
        pairs = dict(zip(names, (self.steps, self.starts, self.phases, self.extents, self.results), strict=True))
        fields = {f"{name}_{way}": of for name, pair in pairs.items() for way, of in zip(("down", "along"), pair)}
        fields |= {"batch": self.batch, "rows": self.rows, "channels": self.channels, "block": self.block}
        fields |= {"blocks": self.blocks, "cut": self.cut, "cuts": self.cuts}
        return struct_values("SparseLayer", down=self.positions[0], along=self.positions[1], said=said, **fields)


class SparseTiling(NamedTuple):
    """A tile of positions, with the kernel that it is for."""

    kind: Kind
    down: int
    along: int
    groups: int
    pitch: int
    group_pitch: int
    lanes: int
    tiles: tuple[int, int, int]

    @property
    def struct(self) -> StructValues:
        fields = self._asdict()
        del fields["kind"], fields["tiles"]
        down, along, images = self.tiles
        return struct_values("SparseTiling", **fields, tiles_down=down, tiles_along=along, tiles_images=images)

    @property
    def rows(self) -> int:
        """The number of rows of a block of threads."""
        return self.kind.rows * THREADS // self.lanes

    @property
    def furthest(self) -> int:
        """The place furthest from the first one at which a position begins to read."""
        return ((self.down - 1) * self.pitch + self.along - 1) * self.group_pitch + self.groups - 1


class TilingChoice(NamedTuple):
    """The best tiling and its time. The tiling is None if there is nothing to do, or if no tile has room for its
    channels.
    """

    tiling: SparseTiling | None
    cycles: float


class Unpacked(NamedTuple):
    """The memory to which a call unpacks, in words of 8 bytes. Room for shares of gradients follows it."""

    entries: Scratch
    lists: Scratch
    cells: Scratch
    blocks: Scratch

    @classmethod
    def of(cls, *sizes: int) -> Unpacked:
        sizes = tuple(max(1, size) for size in sizes)
        return cls(*(Scratch(8 * sum(sizes[:position]), 8 * size) for position, size in enumerate(sizes)))

    def shares(self, size: int) -> Scratch:
        return Scratch(self.blocks.offset + self.blocks.size, 4 * size)


def no_tiling() -> StructValues:
    """Return the struct for the kernels that have no tiles."""
    return struct_values("SparseTiling", **{member.name: 0 for member in members("SparseTiling")})


def of_products(layer: SparseLayer) -> TilingChoice:
    """Return the tiling for results."""
    return _best(layer, PRODUCTS, layer.rows, layer.count / max(layer.rows * layer.tiles, 1))


def of_gradients(layer: SparseLayer, parts: int) -> TilingChoice:
    """Return the tiling for gradients of weights.

    Its rows are slots, and `parts` is the number of parts of the rows.
    """
    return _best(layer, GRADIENTS, -(-layer.count // max(parts * layer.tiles, 1)), 1.0)


@functools.lru_cache(1024)
def _best(layer: SparseLayer, kinds: tuple[Kind, ...], rows: int, weights: float) -> TilingChoice:
    if 0 in (layer.batch, rows, *layer.positions):
        return TilingChoice(None, 0.0)
    found = (
        each for kind in kinds for each in _tilings(layer, kind) if positions_of(layer, each) <= POSITIONS // kind.quads
    )
    tiles = -(-layer.tiles // layer.shares)
    unpacking = UNPACKING * layer.count * layer.cuts
    timed = [TilingChoice(each, _cycles(layer, each, rows, weights) * tiles + unpacking) for each in found]
    return min(timed, key=lambda choice: choice.cycles, default=TilingChoice(None, math.inf))


def _tilings(layer: SparseLayer, kind: Kind) -> Iterator[SparseTiling]:
    down, along = layer.positions
    images = -(-layer.batch // (4 * kind.quads))
    for of_down, of_along, groups in itertools.product(_sizes(down), _sizes(along), _sizes(_power(images))):
        lanes = max(FEWEST_LANES, _power(of_down * of_along * groups))
        if lanes <= THREADS and (kind not in PRODUCTS or kind.rows * THREADS // lanes <= LISTS):
            tiles = -(-down // of_down), -(-along // of_along), -(-images // groups)
            pitch, group_pitch = of_along + layer.extents[1], groups | (groups > 4)  # odd: loading meets no bank twice
            yield SparseTiling(kind, of_down, of_along, groups, pitch, group_pitch, lanes, tiles)


def _sizes(extent: int) -> list[int]:
    return sorted({min(extent, size) for size in (1, 2, 4, 8, 16, 32, extent if extent <= 64 else 64)})


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def positions_of(layer: SparseLayer, tiling: SparseTiling) -> int:
    """Return the number of places of shared memory that a block of channels takes."""
    plane = math.prod(layer.phases) * (tiling.down + layer.extents[0]) * tiling.pitch
    return layer.cut * plane * tiling.group_pitch


def _cycles(layer: SparseLayer, tiling: SparseTiling, rows: int, weights: float) -> float:
    """Estimate the cycles for a tile of channels. `weights` is the number of weights of a row in it.

    Shared memory gives a warp's float4 in four cycles.
    """
    kind, row_blocks = tiling.kind, -(-rows // tiling.rows)
    places = positions_of(layer, tiling)
    load = places * kind.quads / 32 * LOAD
    busy = rows / (row_blocks * tiling.rows)
    apart = {4: 2.0, 8: 1.3, 16: 1.15}.get(tiling.lanes, 1.0)  # a warp's rows: uneven lists, conflicts of banks
    work = THREADS / 32 * kind.rows * busy * weights * (4 * kind.quads + 2) * apart
    waits = LATENCY * -(-places // THREADS) + PRODUCT_LATENCY * kind.rows * busy * weights
    blocks = math.prod(tiling.tiles) * row_blocks * layer.shares / PROCESSORS
    if kind in GRADIENTS:  # whose tiles are shared out however many there are
        return blocks * (load + work + waits / RESIDENT)
    of_processor = math.ceil(blocks)  # RESIDENT of them at a time
    return max(of_processor * (load + work), math.ceil(of_processor / RESIDENT) * (load + work + waits))

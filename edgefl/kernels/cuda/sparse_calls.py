"""What calls of masked Linear layers and convolutions have in common: launches of the products, and their memory."""

from __future__ import annotations

import math

from .launch import At, Field, Launches, Planned, launch, tiled
from .sparse_tiling import THREADS, TILING_FIELDS, Images, Layer, Unpacked, of_gradients, of_products, places_of

SLOTS = 32  # of a thread of a gradient's kernel
BUSY = 512  # blocks of threads that a gradient is cut into
MOST_SHARES = 64


class Call:
    """One call: where its weights are unpacked to, and for which tiles; None: windows that no tile has room for.

    cells    of the structure, parts of its rows by blocks of channels
    is_said  whether the structure says what its blocks of channels are
    """

    def __init__(self, layer: Layer, cells: int, *, is_said: bool = False, is_gradient: bool = False) -> None:
        self.layer, self.cells, self._is_said = layer, cells, is_said
        self._tiling = of_gradients(layer, cells) if is_gradient else of_products(layer)
        self._unpacked = Unpacked.of(layer.count, layer.rows * layer.blocks, cells, 1)

    @property
    def unpacked(self) -> tuple[Field, ...]:
        """SparseUnpacked."""
        return tuple(self._unpacked)

    @property
    def group_pitch(self) -> int:
        return self._tiling.group_pitch if self._tiling else 1

    @property
    def reach(self) -> tuple[int, int, int, int, int]:
        """Of a tile its rows and their cells, places of a cell, phases, and the last place that a weight may have."""
        layer, tiling, phases = self.layer, self._tiling, math.prod(self.layer.phases)
        if tiling is None:
            rows, pitch = layer.extents[0] + 1, layer.extents[1] + 1
            return rows, pitch, 1, phases, layer.block * phases * rows * pitch - 1
        most = places_of(layer, tiling) - 1 - tiling.furthest
        return tiling.down + layer.extents[0], tiling.pitch, tiling.group_pitch, phases, most

    def product(self, x: Images, y: Images, bias: At | None = None) -> Planned:
        layer, tiling = self.layer, self._tiling
        fields = *self._fields(x, y), self._unpacked.entries, self._unpacked.lists, bias
        if tiling is None:
            return launch("sparse_product_direct", layer.batch * layer.rows * math.prod(layer.positions), *fields)
        return tiled(tiling.kind.name, (math.prod(tiling.tiles), -(-layer.rows // tiling.rows), 1), *fields)

    def gradient(self, x: Images, dy: Images, gradients: At) -> Launches:
        if not gradients.size:
            return []
        read = *self._fields(x, dy), self._unpacked.entries, self._unpacked.cells
        count, tiling, slots = gradients.size, self._tiling, -(-gradients.size // self.cells)
        if tiling is None:
            return [tiled("sparse_gradient_direct", (self.cells, min(slots, 1 << 15), 1), *read, gradients, count)]
        chunks, tiles = -(-slots // (THREADS // tiling.lanes * SLOTS)), math.prod(tiling.tiles)
        shares = max(1, min(BUSY // (self.cells * chunks), tiles, MOST_SHARES))
        to = gradients if shares == 1 else self._unpacked.shares(shares * count)
        correlate = tiled(tiling.kind.name, (self.cells, chunks, shares), *read, to, count)
        return [correlate, *([launch("sparse_add_shares", count, to, gradients, shares, count)] if shares > 1 else [])]

    def _fields(self, x: Images, y: Images) -> tuple[Field, ...]:
        said = self._unpacked.blocks if self._is_said else None
        tiling = self._tiling.fields if self._tiling else (0,) * TILING_FIELDS
        return *x.fields, *y.fields, *self.layer.fields(said), *tiling

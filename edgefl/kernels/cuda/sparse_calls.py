"""The common part of the calls of masked Linear layers and convolutions: launches of the products, and their memory."""

from __future__ import annotations

import math

from .launch import (
    Fields,
    KernelArray,
    Launches,
    PlannedLaunch,
    Scratch,
    StructValues,
    launch,
    struct_values,
    tiled,
)
from .sparse_tiling import (
    GRADIENTS,
    THREADS,
    Images,
    SparseLayer,
    Unpacked,
    no_tiling,
    of_gradients,
    of_products,
    positions_of,
)
from .structs import declare

declare(
    {
        "SparseProductArgs: sparse_product_{large,medium,small,direct}": (
            "x,y:SparseImages layer:SparseLayer tiling:SparseTiling entries:SparseEntry[] lists:SparseList[] "
            "bias:float[]?"
        ),
        # The gradients are [shares, count].
        "SparseGradientArgs: sparse_gradient_{large,small,direct}": (
            "x,dy:SparseImages layer:SparseLayer tiling:SparseTiling entries:SparseEntry[] cells:SparseList[] "
            "gradients:float[]! count"
        ),
        # The shares [number, count] are of gradients, or of results [batch, channels, inner] with their bias.
        "sparse_add_shares": "shares:float[] to:float[]! bias:float[]? number count channels inner",
    }
)

RESULTS, FEW, MOST_PRODUCTS = 4096, 256, 8  # results of a block, blocks that fill a device, most shares
SLOTS = GRADIENTS[0].rows  # of a thread of a gradient's kernel
BUSY = 512  # blocks of threads that a gradient is cut into
MOST_SHARES = 64


def shares_of(batch: int, rows: int, positions: int, blocks: int) -> int:
    """Return into how many shares the channels of a layer are cut, if its results are too few to keep a device busy."""
    threads = -(-batch * rows * positions // RESULTS)
    return max(1, min(-(-FEW // max(threads, 1)), blocks, MOST_PRODUCTS))


class SparseCall:
    """One call: where its weights are unpacked to, and its tiling, or None if no tile has room for its windows.

    parts    the number of parts of the rows
    is_said  whether the structure itself says what its blocks of channels are
    """

    def __init__(self, layer: SparseLayer, parts: int, *, is_said: bool = False, is_gradient: bool = False) -> None:
        self.layer, self._is_said = layer, is_said
        self._cells = parts * layer.tiles
        self._tiling, self.cycles = of_gradients(layer, parts) if is_gradient else of_products(layer)
        self._unpacked = Unpacked.of(layer.count, layer.rows * layer.tiles, self._cells, 1)

    @property
    def unpacked(self) -> StructValues:
        return struct_values("SparseUnpacked", **self._unpacked._asdict())

    @property
    def group_pitch(self) -> int:
        return self._tiling.group_pitch if self._tiling else 1

    @property
    def reach(self) -> tuple[int, int, int, int, int]:
        """The rows of a tile, their cells, the places of a cell, the phases, and the last place of a weight."""
        layer, tiling, phases = self.layer, self._tiling, math.prod(self.layer.phases)
        if tiling is None:
            rows, pitch = layer.extents[0] + 1, layer.extents[1] + 1
            return rows, pitch, 1, phases, layer.cut * phases * rows * pitch - 1
        most = positions_of(layer, tiling) - 1 - tiling.furthest
        return tiling.down + layer.extents[0], tiling.pitch, tiling.group_pitch, phases, most

    def product(self, x: Images, y: Images, bias: KernelArray | None = None) -> Launches:
        layer, tiling, room = self.layer, self._tiling, self._unpacked
        read: Fields = {**self._common, "x": x.struct, "entries": room.entries, "lists": room.lists}
        if tiling is None:
            work = layer.batch * layer.rows * math.prod(layer.positions)
            return [launch("sparse_product_direct", work, **read, y=y.struct, bias=bias)]
        grid = math.prod(tiling.tiles), -(-layer.rows // tiling.rows), layer.shares
        if layer.shares == 1:
            return [tiled(tiling.kind.name, grid, **read, y=y.struct, bias=bias)]
        to = room.shares(layer.shares * y.at.size)
        product = tiled(tiling.kind.name, grid, **read, y=Images(y.at, y.lanes, to).struct, bias=None)
        return [product, _add(to, y.at, bias, layer.shares, y.lanes)]

    def gradient(self, x: Images, dy: Images, gradients: KernelArray) -> Launches:
        if not gradients.size:
            return []
        read: Fields = {**self._common, "entries": self._unpacked.entries, "cells": self._unpacked.cells}
        read |= {"x": x.struct, "dy": dy.struct, "count": gradients.size}
        count, tiling, slots = gradients.size, self._tiling, -(-gradients.size // self._cells)
        if tiling is None:
            grid = self._cells, min(slots, 1 << 15), 1
            return [tiled("sparse_gradient_direct", grid, **read, gradients=gradients)]
        chunks, tiles = -(-slots // (THREADS // tiling.lanes * SLOTS)), math.prod(tiling.tiles)
        shares = max(1, min(BUSY // (self._cells * chunks), tiles, MOST_SHARES))
        to = gradients if shares == 1 else self._unpacked.shares(shares * count)
        correlate = tiled(tiling.kind.name, (self._cells, chunks, shares), **read, gradients=to)
        return [correlate] if isinstance(to, KernelArray) else [correlate, _add(to, gradients, None, shares)]

    @property
    def _common(self) -> Fields:
        said = self._unpacked.blocks if self._is_said else None
        return {"layer": self.layer.struct(said), "tiling": self._tiling.struct if self._tiling else no_tiling()}


def _add(shares: Scratch, to: KernelArray, bias: KernelArray | None, number: int, lanes: int = 1) -> PlannedLaunch:
    channels, inner = to.shape[1:2] or (1,), lanes * math.prod(to.shape[2:])
    extents = {"number": number, "count": to.size, "channels": channels[0], "inner": inner}
    return launch("sparse_add_shares", to.size, shares=shares, to=to, bias=bias, **extents)

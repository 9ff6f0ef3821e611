"""Linear layers of masked weights, computed at the mask only: csrc/cuda/sparse_linear.cuh.

The blocks of columns follow from a structure's number of words. Only their width is in the structure itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..weight_structure import HEADER, MOST_WIDTH, PANEL
from .launch import Fields, KernelArray, Launches, PlannedLaunch, tiled
from .sparse_calls import SparseCall, shares_of
from .sparse_tiling import Images, SparseLayer
from .structs import declare

declare(
    {
        # There are no values for gradients. A block has at most `block` columns, and a channel has group_pitch
        # positions in a tile. Only the kind of structure that `turned` names is unpacked.
        "SparseLinearArgs: sparse_linear_{unpack,turn}": (
            "structure:uint32[] values:float[]? to:SparseUnpacked count rows columns blocks block group_pitch turned"
        ),
    }
)

FORWARD, TRANSPOSED, ANY = 0, 1, 2  # SparseLinearArgs::turned


class Matrix(NamedTuple):
    """The matrix that a structure describes: rows in panels, columns in blocks of at most `width`."""

    rows: int
    columns: int
    blocks: int

    @property
    def panels(self) -> int:
        return -(-self.rows // PANEL)

    @property
    def segments(self) -> int:
        return self.panels * self.blocks

    @property
    def width(self) -> int:
        most = self.columns if self.blocks == 1 else (self.columns - 1) // (self.blocks - 1)
        return max(1, min(most, MOST_WIDTH))


def sparse_linear_forward(
    x: KernelArray, structure: KernelArray, values: KernelArray, bias: KernelArray | None, y: KernelArray
) -> Launches:
    matrix = _matrix(structure, values.size, y.shape[1], x.shape[1])
    assert matrix is not None  # as has been checked
    layer = _layer(x, matrix, values)
    shares = shares_of(layer.batch, layer.rows, 1, layer.blocks)
    call = SparseCall(replace(layer, shares=shares), matrix.panels, is_said=True)
    return [_unpack(call, structure, values, matrix, ANY), *call.product(Images(x), Images(y), bias)]


def sparse_linear_grad_input(dy: KernelArray, structure: KernelArray, values: KernelArray, dx: KernelArray) -> Launches:
    """Return the launches for dx, from the forward or the transposed structure.

    The structure may lie on the device alone. Where its size does not tell which one it is, the device decides.
    """
    (batch, ins), outs = dx.shape, dy.shape[1]
    if not outs:
        return SparseCall(SparseLayer(batch, ins, 0, 1, 0, 0), 0).product(Images(dy), Images(dx))
    transposed = _matrix(structure, values.size, ins, outs)
    forward = _matrix(structure, values.size, outs, ins)
    turned = forward and Matrix(ins, outs, -(-outs // PANEL))  # columns by panels
    of_results = [each for each in (transposed, turned) if each]
    width = max(each.width if each is transposed else min(PANEL, outs) for each in of_results)
    parts = max(each.panels for each in (transposed, forward) if each)
    blocks = max(each.blocks for each in of_results)
    layer = SparseLayer(batch, ins, outs, width, blocks, values.size, shares=shares_of(batch, ins, 1, blocks))
    call = SparseCall(layer, parts, is_said=True)
    found = []
    if transposed:
        found.append(_unpack(call, structure, values, transposed, TRANSPOSED if forward else ANY))
    if forward:
        found.append(_unpack(call, structure, values, forward, FORWARD if transposed else ANY, "sparse_linear_turn"))
    return [*found, *call.product(Images(dy), Images(dx))]


def sparse_linear_grad_weight(
    x: KernelArray, dy: KernelArray, structure: KernelArray, gradients: KernelArray
) -> Launches:
    matrix = _matrix(structure, gradients.size, dy.shape[1], x.shape[1])
    assert matrix is not None  # as has been checked
    call = SparseCall(_layer(x, matrix, gradients), matrix.panels, is_said=True, is_gradient=True)
    return [_unpack(call, structure, None, matrix, ANY), *call.gradient(Images(x), Images(dy), gradients)]


def _matrix(structure: KernelArray, count: int, rows: int, columns: int) -> Matrix | None:
    """Return the matrix of a structure, or None if no structure of such a matrix has so many words."""
    room = structure.size - (HEADER + 2 + (count + 1) // 2 + 1)
    of_block = 2 * -(-rows // PANEL) + rows
    if of_block == 0:
        return Matrix(rows, columns, 1) if room == 0 else None
    blocks, rest = divmod(room, of_block)
    is_one = rest == 0 and 1 <= blocks <= max(columns, 1) and blocks * MOST_WIDTH >= columns
    return Matrix(rows, columns, blocks) if is_one else None


def _layer(x: KernelArray, matrix: Matrix, values: KernelArray) -> SparseLayer:
    return SparseLayer(x.shape[0], matrix.rows, matrix.columns, matrix.width, matrix.blocks, values.size)


def _unpack(
    call: SparseCall,
    structure: KernelArray,
    values: KernelArray | None,
    matrix: Matrix,
    turned: int,
    kernel: str = "sparse_linear_unpack",
) -> PlannedLaunch:
    extents = {"count": call.layer.count, **matrix._asdict(), "block": matrix.width}
    room: Fields = {"to": call.unpacked, "group_pitch": call.group_pitch, "turned": turned}
    grid = matrix.segments, 1, 1
    return tiled(kernel, grid, PANEL, structure=structure, values=values, **room, **extents)

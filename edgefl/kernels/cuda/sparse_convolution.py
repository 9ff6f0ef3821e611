"""Convolutions of masked weights, computed at the mask only: csrc/cuda/sparse_convolution.cuh."""

from __future__ import annotations

import math
from dataclasses import replace

from ..arrays import Pair
from ..sparse_layout import HEADER, SparseConvolutionLayout
from ..sparse_layout import ConvolutionShape as Window
from .convolution import weight_gradient
from .launch import KernelArray, Launches, PlannedLaunch, Scratch, tiled
from .sparse_calls import SparseCall, shares_of
from .sparse_tiling import Images, SparseLayer
from .structs import declare

declare(
    {
        # There are no values for gradients. The fields from header to runs_at are words. The structure's offsets use
        # plane, phase_plane and pitch, and tiles use the fields from tile_rows to phases. A tile has `cut` channels,
        # and a block has `cuts` tiles. Any result reads a tile up to the position `most`.
        "SparseUnpackArgs: sparse_conv2d_unpack": (
            "structure:uint32[] values:float[]? to:SparseUnpacked count rows part parts blocks kinds is_whole header "
            "list_words runs_at plane phase_plane pitch tile_rows tile_pitch group_pitch phases cut cuts most"
        ),
        # The dense weight's gradients are [rows, channels, taps]. A tap lies `apart` cells from the next, and a
        # position `step` cells.
        "SparseTakeArgs: sparse_conv2d_take": (
            "structure:uint32[] dense:float[] gradients:float[]! count rows part parts blocks kinds is_whole header "
            "list_words runs_at plane phase_plane pitch cut block channels taps taps_along step_down step_along "
            "apart_down apart_along phases_along"
        ),
    }
)

UNPACKERS, SHARERS = 128, 8  # threads of a block, and blocks that share the runs of a cell's tile
TAKEN_TILES = 4  # of a cell's channels, each by blocks of its own, where gradients are taken
TAKEN_FROM = 0.02  # density from which the whole weight's gradient takes less time
CUT_FOR, SHARED_FOR = 128, 16  # examples: what is good for them is what all batches have
_SAID = ("count", "rows", "part", "parts", "blocks", "kinds", "is_whole", "list_words", "runs_at", "plane", "pitch")
CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)  # of a block of channels that has no room in a tile, or too little


def sparse_conv2d_forward(
    x: KernelArray,
    structure: KernelArray,
    values: KernelArray,
    bias: KernelArray | None,
    y: KernelArray,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> Launches:
    layout = _layout(x, y, values, (kernel, stride, padding, dilation))
    call = _call(layout, x.shape[0])
    product = call.product(Images(x, x_lanes), Images(y, y_lanes), bias)
    return [_unpack(call, layout, structure, values), *product]


def sparse_conv2d_grad_input(
    dy: KernelArray,
    structure_t: KernelArray,
    values_t: KernelArray,
    dx: KernelArray,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> Launches:
    layout = _layout(dx, dy, values_t, (kernel, stride, padding, dilation), is_transposed=True)
    call = _call(layout, dx.shape[0])
    return [_unpack(call, layout, structure_t, values_t), *call.product(Images(dy, y_lanes), Images(dx, x_lanes))]


def sparse_conv2d_grad_weight(
    x: KernelArray,
    dy: KernelArray,
    structure: KernelArray,
    gradients: KernelArray,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> Launches:
    layout = _layout(x, dy, gradients, (kernel, stride, padding, dilation))
    if x_lanes == y_lanes == 1 and gradients.size >= TAKEN_FROM * layout.rows * layout.channels * layout.layer.taps:
        return _taken(layout, x, dy, structure, gradients)
    call = _call(layout, x.shape[0], is_gradient=True)
    return [_unpack(call, layout, structure, None), *call.gradient(Images(x, x_lanes), Images(dy, y_lanes), gradients)]


def _taken(
    layout: SparseConvolutionLayout, x: KernelArray, dy: KernelArray, structure: KernelArray, gradients: KernelArray
) -> Launches:
    """Plan the whole weight's gradient in scratch memory, of which the kept weights' gradients are taken."""
    layer, along = layout.layer, layout.axes[1]
    dense = Scratch(0, 4 * layout.rows * layout.channels * layer.taps)
    shape = layer.outs, layer.ins, *layer.kernel
    whole = weight_gradient(x, dy, dense, shape, layer.stride, layer.padding, layer.dilation)
    said = {name: getattr(layout, name) for name in _SAID}
    offsets = {"header": HEADER, "phase_plane": (layout.band + layout.extents[0]) * layout.pitch}
    steps = {"step_down": layer.stride[0], "step_along": layer.stride[1], "phases_along": along.source_phases}
    steps |= {"apart_down": layer.dilation[0], "apart_along": layer.dilation[1], "taps_along": layer.kernel[1]}
    extents = {"block": layout.block, "channels": layout.channels, "taps": layer.taps}
    tiles = min(TAKEN_TILES, layout.block)
    take = tiled(
        "sparse_conv2d_take",
        (layout.parts * layout.blocks, tiles, SHARERS),
        UNPACKERS,
        structure=structure,
        dense=dense,
        gradients=gradients,
        **said,
        **offsets,
        **steps,
        **extents,
        cut=-(-layout.block // tiles),
    )
    return [*whole, take]


def _layout(
    x: KernelArray, y: KernelArray, values: KernelArray, window: tuple[Pair, ...], is_transposed: bool = False
) -> SparseConvolutionLayout:
    height, width = x.shape[2:]
    kernel, stride, padding, dilation = ((int(first), int(second)) for first, second in window)
    layer = Window(x.shape[1], y.shape[1], (height, width), kernel, stride, padding, dilation)
    return SparseConvolutionLayout(layer, values.size, is_transposed)


def _call(layout: SparseConvolutionLayout, batch: int, is_gradient: bool = False) -> SparseCall:
    """Return the fastest call for the layout.

    For results, the cuts and shares of channels do not depend on the batch, and so the order of sums does not either.
    """
    layer = _layer(layout, batch if is_gradient else CUT_FOR)
    cuts = (replace(layer, cuts=cuts) for cuts in CUTS if cuts <= layer.block)
    best = min((SparseCall(each, layout.parts, is_gradient=is_gradient) for each in cuts), key=lambda call: call.cycles)
    if is_gradient:
        return best
    shares = shares_of(SHARED_FOR, layer.rows, math.prod(layer.positions), best.layer.tiles)
    return SparseCall(replace(best.layer, batch=batch, shares=shares), layout.parts)


def _layer(layout: SparseConvolutionLayout, batch: int) -> SparseLayer:
    down, along = layout.axes
    return SparseLayer(
        batch,
        layout.rows,
        layout.channels,
        layout.block,
        layout.blocks,
        layout.count,
        (down.positions, along.positions),
        (down.step, along.step),
        (down.start, along.start),
        (down.source_phases, along.source_phases),
        (down.extent, along.extent),
        (down.row_phases, along.row_phases),
    )


def _unpack(
    call: SparseCall, layout: SparseConvolutionLayout, structure: KernelArray, values: KernelArray | None
) -> PlannedLaunch:
    rows, pitch, group_pitch, phases, most = call.reach
    said = {name: getattr(layout, name) for name in _SAID}
    offsets = {"header": HEADER, "phase_plane": (layout.band + layout.extents[0]) * layout.pitch}
    tile = {"tile_rows": rows, "tile_pitch": pitch, "group_pitch": group_pitch, "phases": phases, "most": most}
    return tiled(
        "sparse_conv2d_unpack",
        (layout.parts * layout.blocks, call.layer.cuts, SHARERS),
        UNPACKERS,
        structure=structure,
        values=values,
        to=call.unpacked,
        **said,
        **offsets,
        **tile,
        cut=call.layer.cut,
        cuts=call.layer.cuts,
    )

"""Convolutions of masked weights, at the mask only: csrc/cuda/sparse_convolution.cuh."""

from __future__ import annotations

import math
from dataclasses import replace

from ..arrays import Pair
from ..sparse_layout import HEADER, Layout
from ..sparse_layout import Layer as Window
from .launch import At, Launches, Planned, tiled
from .sparse_calls import Call, shares_of
from .sparse_tiling import Images, Layer

UNPACKERS = 128
BATCH = 16  # that cuts and shares are made for
CUTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)  # of a block of channels that has no room in a tile, or too little


def sparse_conv2d_forward(
    x: At,
    structure: At,
    values: At,
    bias: At | None,
    y: At,
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
    dy: At,
    structure_t: At,
    values_t: At,
    dx: At,
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
    x: At,
    dy: At,
    structure: At,
    gradients: At,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    x_lanes: int,
    y_lanes: int,
) -> Launches:
    layout = _layout(x, dy, gradients, (kernel, stride, padding, dilation))
    call = _call(layout, x.shape[0], is_gradient=True)
    return [_unpack(call, layout, structure, None), *call.gradient(Images(x, x_lanes), Images(dy, y_lanes), gradients)]


def _layout(x: At, y: At, values: At, window: tuple[Pair, ...], is_transposed: bool = False) -> Layout:
    height, width = x.shape[2:]
    kernel, stride, padding, dilation = ((int(first), int(second)) for first, second in window)
    layer = Window(x.shape[1], y.shape[1], (height, width), kernel, stride, padding, dilation)
    return Layout(layer, values.size, is_transposed)


def _call(layout: Layout, batch: int, is_gradient: bool = False) -> Call:
    """Cuts and shares of channels, and with them the order of sums, are the same for any batch."""
    layer = _layer(layout)
    calls = (Call(replace(layer, cuts=cuts), layout.parts) for cuts in CUTS if cuts <= layer.block)
    cuts = min(calls, key=lambda call: call.cycles).layer.cuts
    shares = 1 if is_gradient else shares_of(BATCH, layer.rows, math.prod(layer.positions), layer.blocks * cuts)
    return Call(replace(layer, batch=batch, cuts=cuts, shares=shares), layout.parts, is_gradient=is_gradient)


def _layer(layout: Layout) -> Layer:
    down, along = layout.axes
    return Layer(
        BATCH,
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


def _unpack(call: Call, layout: Layout, structure: At, values: At | None) -> Planned:
    rows, pitch, group_pitch, phases, most = call.reach
    phase_plane = (layout.band + layout.extents[0]) * layout.pitch
    return tiled(
        "sparse_conv2d_unpack",
        (layout.parts * layout.blocks, call.layer.cuts, 1),
        structure,
        values,
        *call.unpacked,
        *(layout.count, layout.rows, layout.part, layout.parts, layout.blocks, layout.kinds, int(layout.is_whole)),
        *(HEADER, layout.list_words, layout.runs_at, layout.plane, phase_plane, layout.pitch),
        *(rows, pitch, group_pitch, phases, call.layer.cut, call.layer.cuts, most),
        threads=UNPACKERS,
    )

"""Adversarial masked convolutions: shapes, densities from nothing to everything, empty rows and channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from edgefl.kernels import reference
from edgefl.kernels.sparse_layout import ConvolutionShape, SparseConvolutionLayout

from .cases import Args, Array, Case, Rng, blank, normal
from .cases_convolution import Geometry

UNWRITTEN = np.uint32(0xA5A5A5A5)

GEOMETRIES = [
    *(Geometry(batch, 3, 5, (5, 6)) for batch in (0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33)),
    Geometry(128, 2, 3, (4, 4)),
    *(Geometry(3, 6, 7, (side, side)) for side in (1, 2, 3, 4, 8, 11)),
    *(Geometry(2, 3, 4, (3, width)) for width in (1, 2, 5, 7, 9, 13, 16, 17, 33)),
    *(Geometry(2, 3, 4, (height, 8)) for height in (1, 2, 5, 6, 7, 10)),
    *(Geometry(2, 4, 5, (7, 6), kernel, padding=(0, 0)) for kernel in ((1, 1), (1, 3), (3, 1), (2, 2), (5, 5), (7, 1))),
    Geometry(2, 3, 5, (8, 9), (2, 2), (3, 3), (0, 0)),
    Geometry(2, 3, 5, (8, 9), (1, 1), (2, 2), (0, 0)),
    Geometry(2, 3, 5, (8, 9), (3, 3), (1, 2)),
    Geometry(16, 3, 5, (9, 17), (3, 3), (2, 2)),
    Geometry(2, 3, 5, (6, 5), (3, 2), padding=(0, 2)),
    Geometry(2, 1, 7, (9, 9), (2, 2), (2, 2), (2, 2)),
    Geometry(2, 3, 4, (3, 3), (1, 1), padding=(1, 1)),
    Geometry(2, 3, 4, (5, 5), (3, 3), padding=(4, 3)),
    Geometry(2, 3, 5, (9, 8), dilation=(2, 1)),
    Geometry(2, 3, 5, (8, 12), dilation=(1, 3), padding=(0, 2)),
    Geometry(2, 3, 5, (9, 9), (3, 2), (2, 1), (2, 1), (2, 2)),
    Geometry(2, 3, 4, (12, 12), (7, 7), (4, 4), (3, 3)),
    Geometry(2, 3, 7, (9, 8), (2, 3), (12, 12), (3, 2)),
    Geometry(1, 2, 3, (5, 5), (9, 9), padding=(4, 4)),
    Geometry(2, 3, 131, (2, 2)),
    Geometry(2, 130, 9, (4, 4)),
    Geometry(2, 135, 8, (5, 5)),
    Geometry(2, 33, 34, (5, 6), (3, 3), (2, 2)),
    Geometry(17, 41, 5, (13, 13)),
]
DENSITIES = {"none": 0.0, "few": 0.07, "half": 0.5, "all": 1.0}


class Masked(NamedTuple):
    """A masked layer's arrays: mask, both structures and orders."""

    mask: Array
    structure: Array
    order: Array
    structure_t: Array
    order_t: Array


def draw_mask(rng: Rng, g: Geometry, density: float) -> Array:
    """Draw about so many ones. For some densities the middle output, the first input and the last tap have no ones."""
    mask = (rng.random((g.outs, g.ins, *g.kernel)) < density).astype(np.uint8)
    if 0 < density < 1 and mask.size:
        mask[g.outs // 2] = mask[:, 0] = 0
        mask[..., -1, -1] = 0
    return mask


def layer_of(g: Geometry) -> ConvolutionShape:
    return ConvolutionShape(g.ins, g.outs, g.size, g.kernel, g.stride, g.padding, g.dilation)


def settings(g: Geometry) -> Args:
    return {"stride": g.stride, "padding": g.padding, "dilation": g.dilation}


def build(mask: Array, g: Geometry) -> Args:
    """The call that builds its structures, with outputs that nobody has written."""
    count = int(np.count_nonzero(mask))
    words = [SparseConvolutionLayout(layer_of(g), count, is_transposed).words for is_transposed in (False, True)]
    structure, structure_t = (np.full(size, UNWRITTEN) for size in words)
    order, order_t = np.full(count, UNWRITTEN), np.full(count, UNWRITTEN)
    return {
        "mask": mask,
        "structure": structure,
        "order": order,
        "structure_t": structure_t,
        "order_t": order_t,
        "size": g.size,
        **settings(g),
    }


def masked(rng: Rng, g: Geometry, density: float) -> Masked:
    args = build(draw_mask(rng, g, density), g)
    reference.sparse_conv2d_build(**args)
    return Masked(*(args[name] for name in Masked._fields))


def forward(rng: Rng, g: Geometry, density: float, has_bias: bool) -> Args:
    layer = masked(rng, g, density)
    return {
        "x": normal(rng, g.batch, g.ins, *g.size),
        "structure": layer.structure,
        "values": normal(rng, len(layer.order)),
        "bias": normal(rng, g.outs) if has_bias else None,
        "y": blank(g.batch, g.outs, *g.result),
        "kernel": g.kernel,
        **settings(g),
        "x_lanes": 1,
        "y_lanes": 1,
    }


def grad_input(rng: Rng, g: Geometry, density: float) -> Args:
    layer = masked(rng, g, density)
    return {
        "dy": normal(rng, g.batch, g.outs, *g.result),
        "structure_t": layer.structure_t,
        "values_t": normal(rng, len(layer.order)),
        "dx": blank(g.batch, g.ins, *g.size),
        "kernel": g.kernel,
        **settings(g),
        "x_lanes": 1,
        "y_lanes": 1,
    }


def grad_weight(rng: Rng, g: Geometry, density: float) -> Args:
    layer = masked(rng, g, density)
    return {
        "x": normal(rng, g.batch, g.ins, *g.size),
        "dy": normal(rng, g.batch, g.outs, *g.result),
        "structure": layer.structure,
        "gradients": blank(len(layer.order)),
        "kernel": g.kernel,
        **settings(g),
        "x_lanes": 1,
        "y_lanes": 1,
    }


def calls(g: Geometry, density: float, has_bias: bool) -> dict[str, Any]:
    """Return every operation on this layer, as a function that makes its arguments."""
    return {
        "sparse_conv2d_build": lambda rng: build(draw_mask(rng, g, density), g),
        "sparse_conv2d_forward": lambda rng: forward(rng, g, density, has_bias),
        "sparse_conv2d_grad_input": lambda rng: grad_input(rng, g, density),
        "sparse_conv2d_grad_weight": lambda rng: grad_weight(rng, g, density),
    }


def cases() -> Iterator[Case]:
    for number, geometry in enumerate(GEOMETRIES):
        names = list(DENSITIES) if number % 5 == 0 else ["half", "all" if number % 2 else "few"]
        for name in names:
            for op, make in calls(geometry, DENSITIES[name], number % 3 > 0).items():
                yield Case(op, f"{geometry}-{name}", make)
    ordinary = Geometry(2, 6, 5, (5, 6))
    for op, make in calls(ordinary, 0.5, True).items():
        yield Case(op, "ordinary", make)
    for geometry in (
        Geometry(16, 20, 24, (15, 17)),
        Geometry(17, 20, 150, (4, 4)),
        Geometry(16, 12, 150, (9, 8), stride=(2, 2)),
    ):
        for op, make in calls(geometry, 0.3, True).items():
            yield Case(op, f"large-{geometry}", make)

"""Sampled planes in ONNX's operators: interpolation, cells around a plane, repeated and reversed cells.

These are rows of the table in onnx_nodes.py. Interpolation, a pad that continues a plane, and a reversal are selections
of cells or products with a constant matrix, so that no result depends on how a runtime rounds places between cells.
"""

from __future__ import annotations

import numpy as np

from edgefl.models.graph.operations import (
    BorderPad,
    CircularPad2d,
    Flip,
    Interpolate,
    ReflectionPad2d,
    Upsample,
    ZeroPad2d,
)
from edgefl.study.export.onnx_file import Writer


def interpolate(op: Interpolate, inputs: list[str], to: Writer) -> str:
    """Write a product with the shares of the cells of each axis whose size changes."""
    *rows, width = to.input_shape[1:]
    name = inputs[0]
    if rows and (rows[0] != op.size[0]):
        name = to.node("MatMul", to.constant("rows", shares(rows[0], op.size[0], op.align_corners)), name)
    if width != op.size[1]:
        name = to.node("MatMul", name, to.constant("columns", shares(width, op.size[1], op.align_corners).T))
    return name if name != inputs[0] else to.node("Identity", name)


def shares(size: int, result: int, align_corners: bool) -> np.ndarray:
    """Return [result, size]: the share of each cell in each cell of the result."""
    at, weights = np.arange(result), np.zeros((result, size))
    place = np.maximum((at + 0.5) * size / result - 0.5, 0)
    if align_corners:
        place = at * (size - 1) / max(result - 1, 1)
    low = np.minimum(place.astype(np.int64), size - 1)
    np.add.at(weights, (at, low), 1 - (place - low))
    np.add.at(weights, (at, np.minimum(low + 1, size - 1)), place - low)
    return weights


def border_pad(op: BorderPad, inputs: list[str], to: Writer) -> str:
    """Write a Pad, or a selection of the cells along each padded axis: opset 17 has no circular Pad."""
    *rows, width = to.input_shape[1:]
    left, right, top, bottom = op.padding
    if not isinstance(op, CircularPad2d):
        mode = "reflect" if isinstance(op, ReflectionPad2d) else "edge"
        before, after = ([top, left], [bottom, right]) if rows else ([left], [right])
        return to.node("Pad", *inputs, to.constant("pads", [0, 0, *before, 0, 0, *after]), mode=mode)
    name = inputs[0]
    if rows and (top or bottom):
        name = to.node("Gather", name, to.constant("rows", _around(rows[0], top, bottom)), axis=2)
    return to.node("Gather", name, to.constant("columns", _around(width, left, right)), axis=len(to.input_shape))


def _around(size: int, before: int, after: int) -> list[int]:
    return [place % size for place in range(-before, size + after)]


def flip(op: Flip, inputs: list[str], to: Writer) -> str:
    last = list(range(to.input_shape[-1]))[::-1]
    return to.node("Gather", *inputs, to.constant("reverse", last), axis=len(to.input_shape))


def upsample(op: Upsample, inputs: list[str], to: Writer) -> str:
    factors = op.scale_factor if len(to.input_shape) == 3 else op.scale_factor[1:]
    scales = to.constant("scales", [1.0, 1.0, *map(float, factors)])
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return to.node("Resize", *inputs, "", scales, **how)


def zero_pad(op: ZeroPad2d, inputs: list[str], to: Writer) -> str:
    left, right, top, bottom = op.padding
    return to.node("Pad", *inputs, to.constant("pads", [0, 0, top, left, 0, 0, bottom, right]))

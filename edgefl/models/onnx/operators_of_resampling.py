"""Linear interpolation, and cells around planes: parts of ONNX's operators Resize and Pad."""

from __future__ import annotations

from collections.abc import Sequence

from edgefl.errors import GraphError
from edgefl.models.graph.operations import (
    BorderPad,
    CircularPad2d,
    Interpolate,
    ReflectionPad2d,
    ReplicationPad2d,
    ZeroPad2d,
)
from edgefl.models.onnx.axis_atoms import OnnxResult, standard
from edgefl.models.onnx.onnx_call import OnnxCall
from edgefl.models.onnx.operators_of_products import channels_first

BORDERS: dict[str, type[BorderPad]] = {"reflect": ReflectionPad2d, "edge": ReplicationPad2d, "wrap": CircularPad2d}
"""The operations for the modes of Pad, other than zeros."""


def cells_around(
    call: OnnxCall, name: str, pads: Sequence[tuple[int, int]], kind: type[BorderPad] | type[ZeroPad2d]
) -> str:
    """Add cells around planes, or around planes of one row if there is one pair. Return the name of the planes."""
    (top, bottom), (left, right) = pads if len(pads) == 2 else ((0, 0), pads[0])
    return call.assembly.add(kind((left, right, top, bottom)), (name,))


def interpolate(call: OnnxCall, value: OnnxResult) -> OnnxResult:
    """Read a Resize that interpolates planes or sequences linearly."""
    way = call.attribute("coordinate_transformation_mode", "half_pixel")
    call.expect("coordinate_transformation_mode", way, "half_pixel", "pytorch_half_pixel", "align_corners")
    call.expect("antialias", call.attribute("antialias", 0), 0)
    call.expect("axes", call.integers("axes") or None, None)
    before, result = [int(size) for size in value.extents[2:]], _result(call, value)
    if way == "pytorch_half_pixel" and 1 in result:
        raise GraphError(f"a result of {result} cells by {way!r}; expected more than one cell")
    size = (1, *result)[-2:]
    if result == before:
        return value
    added = call.assembly.add(Interpolate((size[0], size[1]), way == "align_corners"), (channels_first(call, value),))
    return standard(added, call.assembly.shape(added), value.batch)


def _result(call: OnnxCall, value: OnnxResult) -> list[int]:
    """Return the number of cells along each axis of positions."""
    if call.has(3):
        sizes = [int(size) for size in call.constant(3).array.ravel()]
        if len(sizes) != value.rank or sizes[1] != value.extents[1]:
            raise GraphError(f"sizes={sizes} of {value}; expected a size of each axis, and the channels unchanged")
        return sizes[2:]
    factors = [float(factor) for factor in call.constant(2).array.ravel()]
    if len(factors) != value.rank or factors[:2] != [1, 1]:
        raise GraphError(f"scales={factors} of {value}; expected a scale of each axis, and 1 for batch and channels")
    found = [size * factor for size, factor in zip(value.extents[2:], factors[2:], strict=True)]
    if any(not cells.is_integer() or cells < 1 for cells in found):
        raise GraphError(f"scales={factors[2:]} of {value.extents[2:]} cells; expected whole numbers of cells")
    return [int(cells) for cells in found]

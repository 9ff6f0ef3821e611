"""Quantized parameters among the arrays of a file that has no graph, as the file of a server's state is.

The codes of the parameter "fc.weight" have the name "fc.weight@bfloat16", or "fc.weight@int8" with the axis of its
scales behind it ("fc.weight@int8.0"). The scales have the name "fc.weight@scale".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from edgefl.models.graph.quantized_array import QuantizedArray

MARK, SCALE = "@", "scale"
Arrays = Mapping[str, NDArray[Any]]


def spread(params: Arrays) -> dict[str, NDArray[Any]]:
    """Return plain arrays: each quantized parameter is its codes and its scales, under names with a mark."""
    found: dict[str, NDArray[Any]] = {}
    for name, value in params.items():
        if not isinstance(value, QuantizedArray):
            found[name] = value
        elif value.scale is None:
            found[f"{name}{MARK}bfloat16"] = value.plain
        else:
            found[f"{name}{MARK}int8.{value.axis}"] = value.plain
            found[f"{name}{MARK}{SCALE}"] = value.scale
    return found


def gathered(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return the parameters of which `spread` made these arrays."""
    found: dict[str, Any] = {}
    for name, value in arrays.items():
        parameter, _, kind = name.partition(MARK)
        if not kind:
            found[name] = value
        elif kind != SCALE:
            axis, scale = int(kind.partition(".")[2] or 0), arrays.get(f"{parameter}{MARK}{SCALE}")
            found[parameter] = QuantizedArray.of_plain(value, scale, axis)
    return found


def parameter_of(name: str) -> str:
    """Return the parameter to which an array of `spread` belongs."""
    return name.partition(MARK)[0]

"""The arrays that a model file has for the parameters of a graph: names, safetensors' types, and shapes.

A float32 parameter is one F32 array under its name. A quantized parameter is a BF16 array, or an I8 array beside an
F32 array of scales, whose name ends in "_scale".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from edgefl.models.graph.graph import Graph, Params
from edgefl.models.graph.operations import Shape
from edgefl.models.graph.quantized_array import QuantizedArray

FLOAT32, BFLOAT16, INT8 = "F32", "BF16", "I8"  # safetensors' names of types
SCALE = "_scale"  # end of the name of the scales of an int8 parameter


class FileArray(NamedTuple):
    """An array of a file: safetensors' name of its type, and its shape."""

    kind: str
    shape: Shape


def expected_arrays(graph: Graph) -> dict[str, FileArray]:
    """Return the arrays of a file of this graph, by name."""
    found = {}
    for name, info in graph.parameters().items():
        quantized = graph.quantized_by_name.get(name)
        if quantized is None:
            found[name] = FileArray(FLOAT32, info.shape)
        elif quantized.precision == "bfloat16":
            found[name] = FileArray(BFLOAT16, info.shape)
        else:
            found[name] = FileArray(INT8, info.shape)
            found[name + SCALE] = FileArray(FLOAT32, (quantized.scales(info.shape),))
    return found


def arrays_of(params: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """Return the arrays of a file for these parameters, and the names of the arrays that are bits of bfloat16."""
    found, halves = dict[str, NDArray[Any]](), set[str]()
    for name, value in params.items():
        if not isinstance(value, QuantizedArray):
            found[name] = value
            continue
        found[name] = value.plain
        if value.scale is None:
            halves.add(name)
        else:
            found[name + SCALE] = value.scale
    return found, halves


def params_of(graph: Graph, arrays: Mapping[str, NDArray[Any]]) -> Params:
    """Return the parameters of a graph from the arrays of a file."""
    found: Params = {}
    for name in graph.parameters():
        value, quantized = arrays[name], graph.quantized_by_name.get(name)
        if quantized is None:
            found[name] = value
        else:
            scale = arrays.get(name + SCALE)
            found[name] = QuantizedArray.of_plain(value, scale, quantized.axis)  # type: ignore[assignment]
    return found

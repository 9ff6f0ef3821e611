"""The class QuantizedParameter: a frozen parameter of a graph that is held in fewer bits.

Quantized parameters are a part of a Graph, as frozen parameters are. Their values are QuantizedArrays. The arithmetic
is that of the float32 values that the codes stand for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.operations import ParamInfo, Shape
from edgefl.models.graph.quantized_array import BYTES, PRECISIONS, Precision, QuantizedArray


class QuantizedParameter(NamedTuple):
    """A frozen parameter `name` of two axes or more, in bfloat16 or in int8.

    axis  0: int8 has a scale for each row. 1: int8 has a scale for each column of a matrix. 0 for bfloat16
    """

    name: str
    precision: Precision
    axis: int = 0

    def scales(self, shape: Shape) -> int:
        """Return the number of scales of a parameter of this shape."""
        return 0 if self.precision == "bfloat16" else shape[self.axis]

    def nbytes(self, shape: Shape) -> int:
        """Return the bytes of the codes and scales of a parameter of this shape."""
        return BYTES[self.precision] * math.prod(shape) + 4 * self.scales(shape)


def check_quantized(quantized: object, constants: Collection[str], infos: Mapping[str, ParamInfo]) -> None:
    """Raise GraphError unless each is a frozen parameter of two axes or more, no constant, in alphabetical order.

    infos  parameters of the graph
    """
    if not isinstance(quantized, tuple) or not all(isinstance(each, QuantizedParameter) for each in quantized):
        raise GraphError(f"quantized={quantized!r:.200}; expected a tuple of QuantizedParameter")
    names = [each.name for each in quantized]
    if names != sorted(set(names)):
        raise GraphError(f"quantized {', '.join(names)[:200]}; expected each parameter once, in alphabetical order")
    for each in quantized:
        info = infos.get(each.name)
        if info is None or info.kind != "frozen" or each.name in constants or len(info.shape) < 2:
            raise GraphError(
                f"quantized parameter {each.name[:200]!r}; expected a frozen parameter of two axes or more"
            )
        axes = (0, 1) if each.precision == "int8" and len(info.shape) == 2 else (0,)
        if each.precision not in PRECISIONS or type(each.axis) is not int or each.axis not in axes:
            raise GraphError(
                f"quantized parameter {each.name[:200]!r}: {each.precision!r:.80} with scales along axis "
                f"{each.axis!r:.80}; expected one of {PRECISIONS}, and axis {' or '.join(map(str, axes))}"
            )


def check_precision(quantized: QuantizedParameter | None, name: str, value: object) -> None:
    """Raise GraphError unless a parameter's value has the precision that the graph gives it (None: float32)."""
    found = (value.precision, value.axis) if isinstance(value, QuantizedArray) else ("float32", 0)
    expected = ("float32", 0) if quantized is None else (quantized.precision, quantized.axis)
    if found != expected:
        raise GraphError(f"{name}: {found[0]} along axis {found[1]}; expected {expected[0]} along axis {expected[1]}")


def filled(quantized: QuantizedParameter, shape: Shape) -> QuantizedArray:
    """Return a quantized parameter of this shape whose values are all between .01 and .06."""
    codes = np.full(BYTES[quantized.precision] * math.prod(shape), 0x3C, np.uint8)
    scale = None if quantized.precision == "bfloat16" else np.full(quantized.scales(shape), 2.0**-10, np.float32)
    return QuantizedArray(shape, codes, scale, quantized.axis)

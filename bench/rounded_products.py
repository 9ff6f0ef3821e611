"""A backend whose products read operands rounded to bfloat16 and add in float32. All else is the native backend.

It says what a processor's bfloat16 products would do to training, as BFMMLA and AVX512-BF16 do them, up to the order of
the sums. Rounding is to nearest even. Operands are rounded where a dense product reads them, each time that it does:
inputs, weights and the gradients of results. Parameters, activations, biases and updates stay float32. It is an
emulation and takes longer than float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels import native
from edgefl.kernels.checked_functions import Call, Function, run
from edgefl.kernels.program import PythonProgram
from edgefl.kernels.signature import ordered
from edgefl.kernels.table import TABLE

OPERANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "conv2d_forward": ("x", "weight"),
        "conv2d_grad_input": ("dy", "weight"),
        "conv2d_grad_weight": ("x", "dy"),
        "linear_forward": ("x", "weight"),
        "linear_grad_input": ("dy", "weight"),
        "linear_grad_weight": ("x", "dy"),
        "linear_update": ("x", "dy"),
    }
)
"""The operations whose products are rounded, and the arguments that are their operands."""

Pairs = list[tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.uint8]]]


def rounded(source: NDArray[np.float32], target: NDArray[np.float32], codes: NDArray[np.uint8]) -> None:
    """Write the values of `source`, rounded to bfloat16, to `target`. `codes` has two bytes for each value."""
    native.narrow_bfloat16(source.reshape(-1), codes)  # type: ignore[attr-defined]
    native.widen_bfloat16(codes, target.reshape(-1))  # type: ignore[attr-defined]


def _function(name: str) -> Function:
    native_function = getattr(native, name)
    if name not in OPERANDS:
        return Function(native_function, lambda *args, **named: (native_function, ordered(TABLE[name], args, named)))

    row = TABLE[name]
    positions = [row.as_python.strip("()").split(", ").index(each) for each in OPERANDS[name]]

    def product(pairs: Pairs, values: tuple[Any, ...]) -> None:
        for source, target, codes in pairs:
            rounded(source, target, codes)
        native_function(*values)

    def record(*args: Any, **named: Any) -> Call:
        values, pairs = list(ordered(row, args, named)), Pairs()
        for position in positions:
            source = values[position]
            values[position] = np.empty_like(source)
            pairs.append((source, values[position], np.empty((source.size, 2), np.uint8)))
        return product, (pairs, tuple(values))

    return Function(lambda *args, **named: run(record(*args, **named)), record)


FUNCTIONS = {name: _function(name) for name in TABLE}
globals().update({name: function.call for name, function in FUNCTIONS.items()})


class RoundedProgram(PythonProgram):
    """A recorded list of calls to the operations of this backend."""

    def __init__(self) -> None:
        super().__init__(FUNCTIONS)


Program = RoundedProgram  # the name by which a backend's callers know it

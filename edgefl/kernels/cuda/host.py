"""The host's part of the CUDA backend. The best other backend computes it.

It has the operations on bytes and on the structures of masked weights, and operations that read weights in fewer bits.
A program of the device has none of these operations. The module also checks the structure of a masked weight before a
program reads the structure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import best
from ..checks import ArgumentCheck
from ..memory import BackendMemory
from ..signature import Signature, ordered
from ..table import FAMILIES, TABLE

FOLLOWED = "sparse_conv2d_forward", "sparse_conv2d_grad_input", "sparse_conv2d_grad_weight"
OPERATIONS = (
    "sparse_conv2d_build",
    "sparse_linear_build",
    *(row.name for family in ("mask", "narrow") for row in FAMILIES[family]),
    *("pointwise_forward", "pointwise_grad_input", "embedding_stored", "conv2d_int8"),
)


def operation(name: str, memory: BackendMemory) -> Callable[..., None]:
    """Return the operation as a function of arrays that may lie on the device."""
    row = TABLE[name]

    @functools.wraps(getattr(best(), name))
    def call(*args: Any, **named: Any) -> None:
        values = ordered(row, args, named)
        arrays = [each for each in zip(row.arguments, values, strict=True) if isinstance(each[1], np.ndarray)]
        memory.fetch(*(value for argument, value in arrays if argument.access != "!"))
        getattr(best(), name)(*values)
        memory.wrote(*(value for argument, value in arrays if argument.is_written))

    return call


class StructureCheck(ArgumentCheck):
    """The check of an operation that follows the structure of a masked convolution."""

    def __init__(self, row: Signature) -> None:
        super().__init__(row)
        self._row = row

    def __call__(self, args: tuple[Any, ...]) -> None:
        super().__call__(args)
        getattr(best(), self._row.name)(*map(_of_no_image, self._row.names, args))


def _of_no_image(name: str, value: Any) -> Any:
    """Return the argument for a call that computes nothing, but that still checks the structure."""
    if name in ("x", "dx", "y", "dy"):
        return value[:0]
    if name == "gradients":
        return np.zeros_like(value)
    return 1 if name in ("x_lanes", "y_lanes") else value

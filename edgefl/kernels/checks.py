"""Checks of one argument: array type and shape, ids, window geometry. What each operation asks for is in contracts.py.

Each check raises ValueError with the argument's name, its value and what was expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ids = NDArray[np.int32] | None
Pair = tuple[int, int]
Extent = int | None  # None: any extent

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Window(NamedTuple):
    """A convolution or pooling window: cell (i, j) of output (r, c) is padded input (r s_h + i d_h, c s_w + j d_w)."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    source: Pair  # input height, width
    result: Pair  # output height, width


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise ValueError unless `holds`."""
    if not holds:
        raise ValueError(f"{name}={value}; expected {expected}")


def array(name: str, value: Array, dtype: np.dtype[Any] | type, shape: Sequence[Extent]) -> None:
    """Require a C-contiguous array of this type and shape; an extent of None is free."""
    expected = np.dtype(dtype)
    if not isinstance(value, np.ndarray) or value.dtype != expected:
        actual = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{name} has type {actual}; expected an array of {expected}")
    if value.ndim != len(shape) or any(want not in (None, have) for have, want in zip(value.shape, shape, strict=True)):
        wanted = ", ".join("any" if extent is None else str(extent) for extent in shape)
        raise ValueError(f"{name} has shape {value.shape}; expected ({wanted})")
    if not value.flags.c_contiguous:
        raise ValueError(f"{name} has strides {value.strides}; expected a C-contiguous array")


def output(name: str, value: Array, dtype: np.dtype[Any] | type, shape: Sequence[Extent]) -> None:
    """Like `array`, and writeable."""
    array(name, value, dtype, shape)
    if not value.flags.writeable:
        raise ValueError(f"{name} is read-only; expected a writeable array")


def optional(name: str, value: Array | None, dtype: np.dtype[Any] | type, shape: Sequence[Extent]) -> None:
    """Like `array`, where None is allowed."""
    if value is not None:
        array(name, value, dtype, shape)


def sized(name: str, value: Array | None, dtype: np.dtype[Any] | type, size: int, is_output: bool = False) -> None:
    """Require an array of `size` values in any shape, or None."""
    if value is None:
        return
    check = output if is_output else array
    check(name, value, dtype, (None,) * getattr(value, "ndim", 1))
    if value.size != size:
        raise ValueError(f"{name} has shape {value.shape}; expected {size} values")


def floating(name: str, value: Array, least_dimensions: int) -> np.dtype[Any]:
    """Require a C-contiguous floating array of at least so many dimensions; return its type."""
    if not isinstance(value, np.ndarray) or value.dtype not in FLOATS:
        actual = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{name} has type {actual}; expected an array of float32 or float64")
    if value.ndim < least_dimensions:
        raise ValueError(f"{name} has shape {value.shape}; expected at least {least_dimensions} dimensions")
    array(name, value, value.dtype, (None,) * value.ndim)
    return value.dtype


def ids(name: str, value: Ids, size: int) -> int:
    """Require sorted unique int32 ids in [0, size), or None for all; return how many they select."""
    if value is None:
        return size
    array(name, value, np.int32, (None,))
    if value.size and (value[0] < 0 or value[-1] >= size):
        wrong = value[0] if value[0] < 0 else value[-1]
        raise ValueError(f"{name} contains {wrong}; expected ids in [0, {size})")
    falls = np.flatnonzero(value[1:] <= value[:-1])
    if falls.size:
        first, second = value[falls[0]], value[falls[0] + 1]
        raise ValueError(f"{name} has {second} after {first}; expected sorted unique ids")
    return value.size


def flat_ids(name: str, value: Array, size: int) -> None:
    """Require sorted unique uint32 coordinates in [0, size)."""
    array(name, value, np.uint32, (None,))
    if value.size and value[-1] >= size:
        raise ValueError(f"{name} contains {value[-1]}; expected coordinates in [0, {size})")
    if (value[1:] <= value[:-1]).any():
        raise ValueError(f"{name} is not increasing; expected sorted unique coordinates")


def below(name: str, value: Array, size: int, length: int | None) -> None:
    """Require int32 values in [0, size), in any order."""
    array(name, value, np.int32, (length,))
    wrong = value[(value < 0) | (value >= size)]
    if wrong.size:
        raise ValueError(f"{name} contains {wrong[0]}; expected values in [0, {size})")


def among(name: str, value: Ids, other: Ids, of: str) -> None:
    """Require every id of `value` (None: all) to be in `other` (None: all)."""
    if other is None:
        return
    missing = None if value is None else np.setdiff1d(value, other)
    if missing is None or missing.size:
        raise ValueError(f"{name}={'all' if missing is None else missing.tolist()}; expected a subset of {of}")


def window(kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, source: Pair) -> Window:
    """The geometry of a convolution or pool; ValueError if a value is outside its domain or no output is left."""
    domains = (("kernel", kernel, 1), ("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1))
    for name, pair, least in domains:
        require(len(pair) == 2 and min(pair) >= least, name, pair, f"two integers, at least {least}")
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    room = [n + 2 * p for n, p in zip(source, padding, strict=True)]
    fits = min(source) > 0 and spans[0] <= room[0] and spans[1] <= room[1]
    require(fits, "kernel", kernel, f"a window that fits the padded input {tuple(room)}")
    height, width = ((n - s) // step + 1 for n, s, step in zip(room, spans, stride, strict=True))
    return Window(kernel, stride, padding, dilation, source, (height, width))

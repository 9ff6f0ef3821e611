"""The class QuantizedArray: a float32 array that is held as bfloat16 values, or as int8 codes with scales.

It is a value, as a model's other arrays are. numpy makes float32 values of it wherever it reads an array. A scale has
16 significant bits, so a code times its scale is exact in float32, and quantizing such values again gives equal codes.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Precision = Literal["bfloat16", "int8"]

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
MOST_CODE = 127
SMALLEST = 2.0**-100  # a row whose largest magnitude is below it becomes 0, because its scale would be subnormal
BYTES: dict[Precision, int] = {"bfloat16": 2, "int8": 1}


class QuantizedArray:
    """A float32 array of two axes or more in fewer bits.

    codes  uint8 [rows, columns, 2] of bfloat16, or [rows, columns, 1] of int8, read-only. The columns are all axes but
           the first
    scale  float32 scale of each row (axis 0) or of each column (axis 1). None for bfloat16
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self, shape: tuple[int, ...], codes: NDArray[np.uint8], scale: NDArray[np.float32] | None = None, axis: int = 0
    ) -> None:
        self.shape, self.axis = shape, axis
        self.codes = codes.reshape(shape[0], math.prod(shape[1:]), BYTES["bfloat16" if scale is None else "int8"])
        self.scale = scale
        self.codes.flags.writeable = False

    @property
    def precision(self) -> Precision:
        return "bfloat16" if self.scale is None else "int8"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the codes and scales."""
        return self.codes.nbytes + (0 if self.scale is None else self.scale.nbytes)

    @property
    def scales(self) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """The scales of rows and the scales of columns, as kernels take them."""
        return (self.scale, None) if self.axis == 0 else (None, self.scale)

    @property
    def plain(self) -> NDArray[Any]:
        """The codes as an array of the shape: uint16 bits of bfloat16, or int8. See `of_plain`."""
        return self.codes.reshape(-1).view("<u2" if self.scale is None else np.int8).reshape(self.shape)

    @functools.cached_property
    def taps_first(self) -> NDArray[np.uint8]:
        """The int8 codes of a weight [outputs, inputs, *taps] as [outputs, taps, inputs]. They are a copy, which is
        kept, unless there is one tap.
        """
        outs, ins, *taps = self.shape
        found = self.codes.reshape(outs, ins, math.prod(taps)).swapaxes(1, 2)
        return np.ascontiguousarray(found)

    @property
    def turned_bytes(self) -> int:
        """The bytes that `taps_first` takes beside the codes."""
        return self.codes.nbytes if self.precision == "int8" and math.prod(self.shape[2:]) > 1 else 0

    @staticmethod
    def of_plain(plain: NDArray[Any], scale: NDArray[np.float32] | None, axis: int) -> QuantizedArray:
        """Return the array whose codes `plain` returned, with these scales."""
        return QuantizedArray(plain.shape, np.ascontiguousarray(plain).reshape(-1).view(np.uint8), scale, axis)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = np.empty(self.codes.shape[:2], np.float32)
        self.widen(found)
        return found.reshape(self.shape).astype(dtype or np.float32, copy=False)

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        found: NDArray[np.float32] = np.asarray(self)[key]
        return found

    def copy(self) -> QuantizedArray:
        """Return the array itself, because codes and scales are never written."""
        return self

    def widen(self, to: NDArray[np.float32]) -> None:
        """Write the values, [rows, columns]."""
        from edgefl import kernels  # a model can be read where no kernel is

        kernels.backend().widen_weight(self.codes, *self.scales, to)


def quantize(values: NDArray[np.float32], precision: Precision, axis: int = 0) -> QuantizedArray:
    """Return the array with its values rounded to a precision.

    values     float32, of two axes or more
    precision  "bfloat16": rounded to nearest even. "int8": rounded to the nearest of 255 multiples of a scale, which
               is the largest magnitude of a row or column over 127
    axis       0 for a scale of each row, 1 for a scale of each column of a matrix. bfloat16 has no scales
    Raises     ValueError for values that are not finite, for other precisions and for fewer axes
    """
    if precision not in PRECISIONS or values.ndim < 2 or axis not in (0, 1) or (axis == 1 and values.ndim > 2):
        raise ValueError(
            f"precision={precision!r}, axis={axis} of an array of shape {values.shape}; expected one of {PRECISIONS}, "
            "two axes or more, and 0, or 1 for a matrix"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"array of shape {values.shape} with infinite values or NaN; expected finite values")
    table = np.ascontiguousarray(values, np.float32).reshape(len(values), -1)
    if precision == "bfloat16":
        return QuantizedArray(values.shape, _bfloat16(table))
    scale = _scale(np.abs(table).max(axis=1 - axis, initial=0))
    divisor = np.where(scale > 0, scale, 1)
    steps = table / (divisor[:, None] if axis == 0 else divisor)
    codes = np.clip(np.rint(steps), -MOST_CODE, MOST_CODE).astype(np.int8)
    codes[(scale == 0,) if axis == 0 else (slice(None), scale == 0)] = 0
    return QuantizedArray(values.shape, codes.view(np.uint8), scale, axis)


def _scale(largest: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scales for these largest magnitudes, rounded to 16 significant bits."""
    mantissa, exponent = np.frexp(np.where(largest < SMALLEST, 0, largest).astype(np.float64) / MOST_CODE)
    return np.ldexp(np.rint(mantissa * 2**16), exponent - 16).astype(np.float32)


def _bfloat16(table: NDArray[np.float32]) -> NDArray[np.uint8]:
    from edgefl import kernels

    codes = np.empty((*table.shape, 2), np.uint8)
    kernels.backend().narrow_bfloat16(table, codes)
    return codes

"""float32 values in fewer bits, and back, in plain numpy: as 16-bit floats, and as bytes with a scale for every 256."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from .stored_weight import stored_weight

BLOCK = 256
SMALLEST = 2.0**-100  # a block whose largest magnitude is below it becomes 0, as steps would be subnormal and lose bits


def narrow_float16(x: Array, halves: Array) -> None:
    """Write each x as the two bytes of a float16, rounded to nearest even. Values that are too large are infinity."""
    with np.errstate(over="ignore"):
        halves.reshape(-1)[...] = x.reshape(-1).astype("<f2").view(np.uint8)


def widen_float16(halves: Array, x: Array) -> None:
    """Read each x from the two bytes of a float16."""
    x.reshape(-1)[...] = halves.reshape(-1).view("<f2")


def narrow_bfloat16(x: Array, halves: Array) -> None:
    """Write the upper two bytes of each x, rounded to nearest even. NaN stays NaN."""
    values = x.reshape(-1).astype(np.float32)
    bits = values.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    kept = np.where(np.isnan(values), bits >> np.uint32(16) | np.uint32(0x40), rounded)
    halves.reshape(-1)[...] = kept.astype("<u2").view(np.uint8)


def widen_bfloat16(halves: Array, x: Array) -> None:
    """Read each x from its upper two bytes. The lower two bytes become 0."""
    x.reshape(-1)[...] = (halves.reshape(-1).view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_int8(x: Array, noise: Array, largest: Array, codes: Array) -> None:
    """Write codes, with codes - 128 = 127 x / largest, rounded at random by `noise`.

    A value is rounded up where (noise + 1/2) / 256 is more than its distance to the next integer, else down.

    largest  the largest magnitude of every 256 values, or 0 if it is below SMALLEST. Codes are 128 there, and where
             it is not finite
    """
    values, rounding_noise, found = x.reshape(-1), noise.reshape(-1), codes.reshape(-1)
    for block in range(len(largest)):
        part = slice(BLOCK * block, BLOCK * (block + 1))
        most = np.abs(values[part]).max()
        largest[block] = 0 if most < SMALLEST else most
        found[part] = 128
        if largest[block] > 0 and np.isfinite(most):
            scale = 127.0 / np.float64(most)
            found[part] = (
                values[part].astype(np.float64) * scale + (rounding_noise[part] * 2.0**-8 + (128 + 2.0**-9))
            ).astype(np.uint8)


def widen_int8(largest: Array, codes: Array, x: Array) -> None:
    """Compute x = (codes - 128) * (largest / 127), in float64 until it is rounded once."""
    steps = np.repeat(largest.astype(np.float64) / 127, BLOCK)[: codes.size]
    x.reshape(-1)[...] = (codes.reshape(-1).astype(np.float64) - 128) * steps


def widen_weight(codes: Array, row_scale: Array | None, col_scale: Array | None, x: Array) -> None:
    """Compute the values of a weight of bfloat16 values, or of int8 codes times a scale of row, column or both."""
    x[...] = stored_weight(codes, row_scale, col_scale)

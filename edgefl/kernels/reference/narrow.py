"""float32 values as bytes with a scale for every 256 of them, and back, in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array

BLOCK = 256
SMALLEST = 2.0**-100  # below it a block is all 0: steps would lose bits as subnormal numbers


def narrow_int8(x: Array, noise: Array, largest: Array, codes: Array) -> None:
    """codes - 128 = 127 x / largest, rounded up where (noise + 1/2) / 256 is more than what is missing, else down.

    largest  the largest magnitude of every 256 values, 0 if it is below SMALLEST; codes are 128 there, and where it is
             not finite
    """
    values, chance, found = x.reshape(-1), noise.reshape(-1), codes.reshape(-1)
    for block in range(len(largest)):
        part = slice(BLOCK * block, BLOCK * (block + 1))
        most = np.abs(values[part]).max()
        largest[block] = 0 if most < SMALLEST else most
        found[part] = 128
        if largest[block] > 0 and np.isfinite(most):
            scale = 127.0 / np.float64(most)
            found[part] = (values[part].astype(np.float64) * scale + (chance[part] * 2.0**-8 + (128 + 2.0**-9))).astype(
                np.uint8
            )


def widen_int8(largest: Array, codes: Array, x: Array) -> None:
    """x = (codes - 128) * (largest / 127), in float64 until it is rounded once."""
    steps = np.repeat(largest.astype(np.float64) / 127, BLOCK)[: codes.size]
    x.reshape(-1)[...] = (codes.reshape(-1).astype(np.float64) - 128) * steps

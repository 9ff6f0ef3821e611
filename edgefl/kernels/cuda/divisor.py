"""The divisors of a kernel in the form that csrc/cuda/divisor.cuh needs."""

from __future__ import annotations

from .launch import StructValues, struct_values
from .structs import declare

declare({"Divisor": "multiplier shift"})


def divisor(size: int) -> StructValues:
    """Return multiplier and shift with which n // size = n * multiplier >> shift for all n below 2^31.

    The multiplier is 2^shift / size rounded up, by less than 1. So n times this error stays below 2^shift / size, as
    2^(shift - 31) >= size. The multiplier has 32 bits, since 2^(shift - 32) < size. Nothing is divided by a size of 0.
    """
    shift = 31 + max(size - 1, 0).bit_length()
    return struct_values("Divisor", multiplier=-(-(1 << shift) // max(size, 1)), shift=shift)

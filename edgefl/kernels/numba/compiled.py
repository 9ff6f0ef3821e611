"""The compilation of loops by the numba backend, and the form of these loops. No other module imports numba.

A loop is compiled at first use and cached on disk. NUMBA_DISABLE_JIT=1 runs the loops as plain Python under a debugger.
Arguments are checked before. Fast-math is off, so that LLVM vectorises only loops whose iterations are independent. So
inner loops run along contiguous rows, with indices that cannot be negative (from 0, or unsigned), since any other index
costs a test in each iteration. Where an output may be the input, a row is read into `line` first, because LLVM takes
the vector loop only if what it writes is apart from what it reads. Sums over batch and pixels run in float64, in one
lane per pixel, and the lanes are added up at the end. This is vector code that reorders no sum.
"""

from __future__ import annotations

import numba
import numpy as np

from ..arrays import Array, Index

compiled = numba.njit(cache=True, nogil=True, fastmath=False)


def spelt_out(ids: Index, size: int) -> Array:
    """Return the ids, or all ids, in one type, so that a loop is compiled once for both."""
    return np.arange(size, dtype=np.int32) if ids is None else ids

"""The values of a frozen weight that is stored in fewer bits, in plain numpy."""

from __future__ import annotations

import numpy as np

from ..arrays import Array


def stored_weight(codes: Array, row_scale: Array | None, col_scale: Array | None) -> Array:
    """Return the weight [rows, cols] of codes [rows, cols, bytes], rounded to float32.

    codes      uint8: two bytes of a bfloat16, or int8 codes of one byte
    row_scale  scale of each row [rows], or None
    col_scale  scale of each column [cols], or None. int8 codes have at least one of the scales, and bfloat16 has none
    """
    if row_scale is None and col_scale is None:
        halves = np.ascontiguousarray(codes).view("<u2")[..., 0]
        return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)
    found = codes[..., 0].view(np.int8).astype(np.float32)
    if row_scale is not None:
        found *= row_scale.astype(np.float32)[:, None]
    if col_scale is not None:
        found *= col_scale.astype(np.float32)
    return found

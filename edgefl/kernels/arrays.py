"""Arrays and ids as the Python backends see them: the types, and ids and planes written out. Nothing is checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Index = NDArray[np.int32] | None  # sorted unique ids, or None for all ids
Pair = tuple[int, int]


def all_or(ids: Index, size: int) -> Array:
    """Return the ids, or all ids below `size` where `ids` is None."""
    return np.arange(size) if ids is None else ids


def split_planes(x: Array) -> Array:
    """Reshape x [B, C, ...] to [B, C, inner]."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def planes(x: Array) -> Array:
    """Reshape x [B, C, ...] to [B C, inner]."""
    return x.reshape(x.shape[0] * x.shape[1], math.prod(x.shape[2:]))

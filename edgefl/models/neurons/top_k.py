"""The k smallest or largest of many numbers, exactly k: among equal ones those that come first.

Found by a partition, not by sorting. Source: ALGORITHMS 8; comparing with the k-th value would take every equal one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.models.neurons.update import Array

Positions = NDArray[np.int64]


def smallest(keys: Array, count: int) -> Positions:
    """Positions of the `count` smallest of a list of unsigned integers, ascending; of equal keys the first.

    Raises  ValueError unless 0 <= count <= len(keys).
    """
    _check(count, len(keys))
    if not count:
        return np.empty(0, np.int64)
    limit = np.partition(keys, count - 1)[count - 1]
    chosen = keys < limit
    equal = np.flatnonzero(keys == limit)
    chosen[equal[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def largest(keys: Array, count: int) -> Positions:
    """Positions of the `count` largest, ascending; of equal keys the first. Raises as `smallest`."""
    return smallest(~keys, count)


def magnitudes(values: Array) -> Array:
    """Unsigned integers in the order of |value|, flattened: NaN counts as infinite, and zeros are equal."""
    sized = np.abs(values.reshape(-1))
    sized[np.isnan(sized)] = np.inf
    return sized.view(np.uint32 if sized.dtype == np.float32 else np.uint64)


def _check(count: int, size: int) -> None:
    if not 0 <= count <= size:
        raise ValueError(f"{count} of {size} numbers; expected 0 <= count <= {size}")

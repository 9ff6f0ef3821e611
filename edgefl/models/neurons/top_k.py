"""The k smallest or largest of many numbers. They are exactly k numbers, and the first of equal numbers are taken.

A partition finds them without sorting. Taking all numbers up to the k-th one would take every equal number.
The rule is stated in docs/algorithms.md section 8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgefl.models.neurons.update import Array

Positions = NDArray[np.int64]


def smallest(keys: Array, count: int) -> Positions:
    """Return the positions of the `count` smallest of a list of unsigned integers, ascending.

    If keys are equal, the function takes the first of them.

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
    """Return the positions of the `count` largest, ascending. The first of equal keys count. Raises like `smallest`."""
    return smallest(~keys, count)


def magnitudes(values: Array) -> Array:
    """Return unsigned integers in the order of |value|, flattened. NaN counts as infinite, and 0.0 equals -0.0."""
    sized = np.abs(values.reshape(-1))
    sized[np.isnan(sized)] = np.inf
    return sized.view(np.uint32 if sized.dtype == np.float32 else np.uint64)


def _check(count: int, size: int) -> None:
    if not 0 <= count <= size:
        raise ValueError(f"{count} of {size} numbers; expected 0 <= count <= {size}")

"""Sums over the values of whole parameters, in float64: by the kernels for float32, and by numpy for other types.

The kernels read every value once and keep no intermediate arrays. The order of a sum depends on the number of its
values alone. These sums are on the processor even if the models are trained on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgefl.kernels import best
from edgefl.models.neurons.update import Array

FLOAT32 = np.dtype(np.float32)
AT_ONCE = 4  # arrays that the kernel adds in one pass, at most


def add_scaled(total: Array, terms: Sequence[tuple[Array, float]]) -> None:
    """Add values * factor of each term to `total`, in the order of the terms. A product is rounded before it is added.

    total  float64 array of the shape of all values
    terms  values and their factor, at most AT_ONCE
    """
    if all(values.dtype == FLOAT32 for values, _ in terms):
        first, *others = [values.reshape(-1) for values, _ in terms]
        factors = np.array([factor for _, factor in terms] + [0.0] * (AT_ONCE - len(terms)), np.float64)
        best().add_scaled(total.reshape(-1), first, factors, *others)
    else:
        for values, factor in terms:
            total += values * factor


def is_finite(values: Array) -> bool:
    """Return whether all values are finite. A sum of squares of float32 in float64 is finite only if all are."""
    return bool(np.isfinite(values).all()) if values.dtype != FLOAT32 else math.isfinite(sum_of_squares(values))


def sum_of_squares(values: Array, before: Array | None = None) -> float:
    """Return the sum of values^2, or of (values - before)^2."""
    if values.dtype != FLOAT32 or (before is not None and before.dtype != FLOAT32):
        changes = values.astype(np.float64)
        return float(np.square(changes if before is None else changes - before).sum())
    total = np.zeros(1)
    if before is None:
        best().sum_squares(values.reshape(-1), total)
    else:
        best().sum_squared_changes(values.reshape(-1), before.reshape(-1), total)
    return total.item()

"""The largest gradients outside a mask: csrc/cuda/growth.cuh."""

from __future__ import annotations

from .launch import At, Launches, tiled


def keep_largest(
    grad: At,
    first: int,
    exists: At,
    count: int,
    magnitudes: At,
    places: At,
    filled: At,
    smallest: At,
) -> Launches:
    seen, numbers = (grad, exists, first, grad.size), (filled, smallest, count, magnitudes.size)
    return [tiled("keep_largest", (1, 1, 1), *seen, magnitudes, places, *numbers)]

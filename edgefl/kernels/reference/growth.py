"""The coordinates with the largest gradients, in plain numpy. The gradients are seen a part at a time."""

from __future__ import annotations

import numpy as np

from ..argument_rules import GROWTH_RUN
from ..arrays import Array


def keep_largest(
    grad: Array,
    first: int,
    exists: Array,
    count: int,
    magnitudes: Array,
    places: Array,
    filled: Array,
    smallest: Array,
) -> None:
    """Append |grad| and the places (first + i) whose bits in `exists` are not set. NaN counts as infinite.

    Where the list has no room for the next run of values, only its `count` largest stay, in order, and among equal
    values the first. From then on, only values larger than the smallest of them are appended. At first = 0 the list
    begins anew.
    """
    if first == 0:
        filled[0], smallest[0] = 0, -1
    found = np.abs(grad.reshape(-1))
    found[np.isnan(found)] = np.inf
    bits = np.unpackbits(exists, bitorder="little")[first : first + found.size]
    for start in range(0, found.size, GROWTH_RUN):
        if filled[0] + GROWTH_RUN > len(magnitudes):
            _shrink(count, magnitudes, places, filled, smallest)
        run = slice(start, start + GROWTH_RUN)
        chosen = start + np.flatnonzero((bits[run] == 0) & (found[run] > smallest[0]))
        used = slice(int(filled[0]), int(filled[0]) + len(chosen))
        magnitudes[used], places[used] = found[chosen], first + chosen
        filled[0] += len(chosen)


def _shrink(count: int, magnitudes: Array, places: Array, filled: Array, smallest: Array) -> None:
    kept = _largest(magnitudes[: int(filled[0])], count)
    magnitudes[: len(kept)], places[: len(kept)] = magnitudes[kept], places[kept]
    filled[0], smallest[0] = len(kept), magnitudes[: len(kept)].min(initial=np.inf)


def largest_places(magnitudes: Array, places: Array, filled: Array, found: Array) -> None:
    """Set found to the places of the largest of the first `filled` magnitudes, in order. The first of equal ones are
    taken.
    """
    found[:] = places[_largest(magnitudes[: int(filled[0])], found.size)]


def _largest(magnitudes: Array, count: int) -> Array:
    """Return the positions of the `count` largest magnitudes, in order. The first of equal ones are taken."""
    return np.sort(np.argsort(-magnitudes, kind="stable")[:count])

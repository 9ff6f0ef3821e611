"""Sets of channels as kernels take them: a sorted unique int32 array, or None for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefl.learning.lowering.schedule import Index
from edgefl.models.neurons.block_index import joined

NONE = np.zeros(0, np.int32)
NONE.flags.writeable = False


def is_empty(ids: Index) -> bool:
    return ids is not None and not ids.size


def count(ids: Index, size: int) -> int:
    """The number of channels that `ids` selects among `size` channels."""
    return size if ids is None else ids.size


def union(a: Index, b: Index, size: int) -> Index:
    """Channels in a or b, of `size`."""
    if a is None or b is None:
        return None
    if a is b or not b.size:
        return a
    return b if not a.size else _simplest(np.union1d(a, b), size)


def owners(ids: Index, repeat: int, size: int) -> Index:
    """The runs, of `size` runs of `repeat` neighbours each, that hold one of `ids`."""
    return ids if ids is None or repeat == 1 else _simplest(np.unique(ids // repeat), size)


def members(ids: Index, repeat: int) -> Index:
    """All channels of the runs `ids`, each of `repeat` neighbours."""
    if ids is None or repeat == 1:
        return ids
    return (ids[:, None] * np.int32(repeat) + np.arange(repeat, dtype=np.int32)).ravel()


def beside(parts: Sequence[Index], sizes: Sequence[int]) -> Index:
    """Channels of results one after another, from those of each, which has so many."""
    if all(ids is None for ids in parts):
        return None
    return joined(parts, sizes)


def part_of(ids: Index, first: int, size: int) -> Index:
    """The channels among `size` from `first` on, counted from there."""
    if ids is None:
        return None
    inside = ids[(ids >= first) & (ids < first + size)] - np.int32(first)
    return _simplest(inside, size)


def _simplest(ids: np.ndarray, size: int) -> Index:
    return None if ids.size == size else ids.astype(np.int32, copy=False)

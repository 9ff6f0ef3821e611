"""Sets of channels as kernels take them: a sorted unique int32 array, or None for all channels."""

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
    """Return the number of channels that `ids` selects among `size` channels."""
    return size if ids is None else ids.size


def union(a: Index, b: Index, size: int) -> Index:
    """Return the channels that are in a or in b, of `size` channels."""
    if a is None or b is None:
        return None
    if a is b or not b.size:
        return a
    return b if not a.size else _simplest(np.union1d(a, b), size)


def owners(ids: Index, repeat: int, size: int) -> Index:
    """Return the runs that hold a channel of `ids`. There are `size` runs of `repeat` neighbouring channels each."""
    return ids if ids is None or repeat == 1 else _simplest(np.unique(ids // repeat), size)


def members(ids: Index, repeat: int) -> Index:
    """Return all channels of the runs `ids`. A run has `repeat` neighbouring channels."""
    if ids is None or repeat == 1:
        return ids
    return (ids[:, None] * np.int32(repeat) + np.arange(repeat, dtype=np.int32)).ravel()


def beside(parts: Sequence[Index], sizes: Sequence[int]) -> Index:
    """Return the channels of a concatenation of results, from the channels `parts` of each result with `sizes`
    channels.
    """
    if all(ids is None for ids in parts):
        return None
    return joined(parts, sizes)


def folded(ids: Index, size: int) -> Index:
    """Return the channels modulo `size`: the channels of one part, where an axis has several parts of `size`."""
    return None if ids is None else _simplest(np.unique(ids % np.int32(size)), size)


def _simplest(ids: np.ndarray, size: int) -> Index:
    return None if ids.size == size else ids.astype(np.int32, copy=False)

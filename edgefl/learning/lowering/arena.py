"""The placement of buffers with known lifetimes in one block of memory. This is arithmetic: no memory is allocated
here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edgefl.kernels.memory import ALIGNMENT
from edgefl.learning.lowering.schedule import Buffer


def aligned(size: int) -> int:
    """Return `size` rounded up to the alignment, in bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def allocate(buffers: Sequence[Buffer], float_bytes: int) -> tuple[tuple[int, ...], int]:
    """Return the offset of each buffer, and the size of the arena, in bytes. Buffers that live together never overlap.

    The largest buffer is placed first, and each at the lowest free offset. Among equal sizes the order of creation
    decides, so the result is deterministic. The time is O(n^2).
    """
    sizes = [aligned(buffer.bytes(float_bytes)) for buffer in buffers]
    return _placed(buffers, sizes, lambda which: -sizes[which])


def allocate_tightly(buffers: Sequence[Buffer], float_bytes: int) -> tuple[tuple[int, ...], int]:
    """Return offsets and size like `allocate`, or the offsets and size of another order if it needs fewer bytes.

    The other order places buffers of about the same size together, and the longest-lived of them first. It suits passes
    that compute parts again, whose buffers of one size live for short and for long.
    """
    sizes = [aligned(buffer.bytes(float_bytes)) for buffer in buffers]
    by_size = _placed(buffers, sizes, lambda which: -sizes[which])
    by_life = _placed(
        buffers, sizes, lambda which: (-sizes[which].bit_length(), buffers[which].first - buffers[which].last)
    )
    return min(by_size, by_life, key=lambda found: found[1])


def _placed(
    buffers: Sequence[Buffer], sizes: Sequence[int], order: Callable[[int], Any]
) -> tuple[tuple[int, ...], int]:
    """Return offsets and size if the buffers are placed in this order."""
    offsets = [0] * len(buffers)
    allocated: list[tuple[int, int, int, int]] = []  # start, end, first, last
    for which in sorted(range(len(buffers)), key=order):
        _, _, first, last = buffers[which]
        if not sizes[which]:
            continue
        taken = sorted((start, end) for start, end, since, until in allocated if since <= last and first <= until)
        offset = _lowest_gap(taken, sizes[which])
        offsets[which] = offset
        allocated.append((offset, offset + sizes[which], first, last))
    return tuple(offsets), max((end for _, end, _, _ in allocated), default=0)


def _lowest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the lowest offset with `size` free bytes among the sorted intervals `taken`."""
    offset = 0
    for start, end in taken:
        if start - offset >= size:
            break
        offset = max(offset, end)
    return offset

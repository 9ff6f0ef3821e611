"""The largest gradients outside a mask: csrc/cuda/growth.cuh."""

from __future__ import annotations

from .launch import Field, KernelArray, Launches, PlannedLaunch, Scratch, tiled

_ALONE = 1 << 15  # values of a list up to which one block is as fast as all
_LEAST_PART, _MOST_PARTS = 1 << 13, 256  # least values of a block, most blocks
_ROUNDS = 4  # rounds by all blocks, after which one block takes the rest
_DIGITS, _VALUES_OF_DIGIT = 7, 32  # of a magnitude


def keep_largest(
    grad: KernelArray,
    first: int,
    exists: KernelArray,
    count: int,
    magnitudes: KernelArray,
    places: KernelArray,
    filled: KernelArray,
    smallest: KernelArray,
) -> Launches:
    capacity, size = magnitudes.size, grad.size
    if size == 0 and first > 0:
        return []  # a list that goes on, with nothing
    seen = grad, exists, first, size
    call = *seen, magnitudes, places, filled, smallest, count, capacity
    if capacity <= _ALONE or size == 0:
        return [_one("keep_largest", *call, *(None,) * 6)]
    blocks = _parts(max(capacity, size))
    memory = _Memory(blocks, count)
    launches: list[PlannedLaunch] = []
    for number in range(min(_ROUNDS, 1 + size // (capacity - count))):
        now = memory.now if number else None
        launches += [
            tiled(kernel, (blocks, 1, 1), *call, now, *memory.round) for kernel in ("growth_count", "growth_append")
        ]
        launches += _ranked((magnitudes, places), memory.kept, memory.full, count, memory, blocks)
        launches.append(tiled("growth_settle", (blocks, 1, 1), *call, memory.now, *memory.round))
    return [*launches, _one("keep_largest", *call, memory.now, *memory.round)]


def largest_places(magnitudes: KernelArray, places: KernelArray, filled: KernelArray, found: KernelArray) -> Launches:
    capacity, count = magnitudes.size, found.size
    if capacity <= _ALONE or count == 0:
        return [_one("largest_places", magnitudes, places, filled, found, count)] if count else []
    blocks = _parts(capacity)
    return _ranked((magnitudes, places), (None, found), filled, count, _Memory(blocks, 0), blocks)


class _Memory:
    """The scratch memory that the launches of a call share."""

    def __init__(self, blocks: int, count: int) -> None:
        self._end = 0
        self.counted, self.histograms = self._take(8 * blocks), self._take(8 * blocks * _VALUES_OF_DIGIT)
        self.cuts, self.now, self.looked = self._take(12 * (_DIGITS + 1)), self._take(16), self._take(16)
        self.kept = self._take(4 * count), self._take(4 * count)
        self.cut = Scratch(self.cuts.offset + 12 * _DIGITS, 12)  # the whole one
        self.full = Scratch(self.looked.offset + 12, 4)
        self.round = self.looked, self.cut, *self.kept, self.counted

    def _take(self, size: int) -> Scratch:
        taken = Scratch(self._end, size)
        self._end += -(-size // 16) * 16
        return taken


def _ranked(
    source: tuple[Field, Field], to: tuple[Field, Field], filled: Field, rank: int, memory: _Memory, blocks: int
) -> list[PlannedLaunch]:
    """Return launches that find the `rank` largest of the first `filled` values, in order: ranking.cuh."""
    fields = *source, *to, filled, rank, memory.cuts, memory.histograms, memory.counted
    kernels = [*["ranking_digit"] * _DIGITS, "ranking_count", "ranking_keep"]
    return [tiled(kernel, (blocks, 1, 1), *fields, turn) for turn, kernel in enumerate(kernels)]


def _parts(values: int) -> int:
    return min(-(-values // _LEAST_PART), _MOST_PARTS)


def _one(kernel: str, *fields: Field) -> PlannedLaunch:
    return tiled(kernel, (1, 1, 1), *fields)

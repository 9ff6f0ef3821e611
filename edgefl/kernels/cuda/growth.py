"""The largest gradients outside a mask: csrc/cuda/growth.cuh."""

from __future__ import annotations

from .launch import (
    Field,
    Fields,
    KernelArray,
    Launches,
    PlannedLaunch,
    Scratch,
    StructValues,
    Value,
    struct_values,
    tiled,
)
from .structs import declare

declare(
    {
        # This is a part of the gradient, and which of its coordinates exist.
        "growth::Seen": "grad:word[] exists:uint8[] first size",
        # There may be no magnitudes where they would be written.
        "growth::Ranked": "magnitudes:bits[]?! positions:int32[]?!",
        # There is no progress `now` at the beginning. One round of all blocks comes to `looked`, with its own cut. The
        # list shrinks to the kept [count] values. Each block has counted [blocks].
        "growth::KeepLargestArgs: keep_largest growth_{count,append,settle}": (
            "seen:growth::Seen list:growth::Ranked filled:int32[]! smallest:bits[]! count capacity "
            "now,looked:growth::Progress[]?! cut:growth::Cut[]? kept:growth::Ranked counted:int64[]?!"
        ),
        "largest_places": "list:growth::Ranked filled found count",
        # Each launch but the last writes a cut. The histograms [2, blocks, digits] are of every other launch. Each
        # block has counted [blocks]. The launches are numbered by `turn`.
        "growth::RankingArgs: ranking_{digit,count,keep}": (
            "source,to:growth::Ranked filled:int32[] rank cuts:growth::Cut[]! histograms:int32[]! counted:int64[]! turn"
        ),
    }
)

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
    seen = struct_values("growth::Seen", grad=grad, exists=exists, first=first, size=size)
    ranked, numbers = _ranked_list(magnitudes, places), {"count": count, "capacity": capacity}
    call: Fields = {"seen": seen, "list": ranked, "filled": filled, "smallest": smallest, **numbers}
    if capacity <= _ALONE or size == 0:
        return [_one("keep_largest", **call, now=None, **_NO_ROUND)]
    blocks = _parts(max(capacity, size))
    memory = _Memory(blocks, count)
    launches: list[PlannedLaunch] = []
    for number in range(min(_ROUNDS, 1 + size // (capacity - count))):
        now = memory.now if number else None
        launches += [
            tiled(kernel, (blocks, 1, 1), **call, now=now, **memory.round)
            for kernel in ("growth_count", "growth_append")
        ]
        launches += _ranked(ranked, memory.kept, memory.full, count, memory, blocks)
        launches.append(tiled("growth_settle", (blocks, 1, 1), **call, now=memory.now, **memory.round))
    return [*launches, _one("keep_largest", **call, now=memory.now, **memory.round)]


def largest_places(magnitudes: KernelArray, places: KernelArray, filled: KernelArray, found: KernelArray) -> Launches:
    capacity, count, ranked = magnitudes.size, found.size, _ranked_list(magnitudes, places)
    if capacity <= _ALONE or count == 0:
        return [_one("largest_places", list=ranked, filled=filled, found=found, count=count)] if count else []
    blocks = _parts(capacity)
    return _ranked(ranked, _ranked_list(None, found), filled, count, _Memory(blocks, 0), blocks)


class _Memory:
    """The scratch memory that the launches of a call share."""

    def __init__(self, blocks: int, count: int) -> None:
        self._end = 0
        self.counted, self.histograms = self._take(8 * blocks), self._take(8 * blocks * _VALUES_OF_DIGIT)
        self.cuts, self.now, self.looked = self._take(12 * (_DIGITS + 1)), self._take(16), self._take(16)
        self.kept = _ranked_list(self._take(4 * count), self._take(4 * count))
        self.cut = Scratch(self.cuts.offset + 12 * _DIGITS, 12)  # the whole one
        self.full = Scratch(self.looked.offset + 12, 4)
        self.round: Fields = {"looked": self.looked, "cut": self.cut, "kept": self.kept, "counted": self.counted}

    def _take(self, size: int) -> Scratch:
        taken = Scratch(self._end, size)
        self._end += -(-size // 16) * 16
        return taken


def _ranked(
    source: StructValues, to: StructValues, filled: Field, rank: int, memory: _Memory, blocks: int
) -> list[PlannedLaunch]:
    """Return launches that find the `rank` largest of the first `filled` values, in order: ranking.cuh."""
    room = {"cuts": memory.cuts, "histograms": memory.histograms, "counted": memory.counted}
    fields: Fields = {"source": source, "to": to, "filled": filled, "rank": rank, **room}
    kernels = [*["ranking_digit"] * _DIGITS, "ranking_count", "ranking_keep"]
    return [tiled(kernel, (blocks, 1, 1), **fields, turn=turn) for turn, kernel in enumerate(kernels)]


def _ranked_list(magnitudes: Value, positions: Value) -> StructValues:
    return struct_values("growth::Ranked", magnitudes=magnitudes, positions=positions)


def _parts(values: int) -> int:
    return min(-(-values // _LEAST_PART), _MOST_PARTS)


def _one(kernel: str, /, **fields: Field) -> PlannedLaunch:
    return tiled(kernel, (1, 1, 1), **fields)


_NO_ROUND: Fields = {"looked": None, "cut": None, "kept": _ranked_list(None, None), "counted": None}  # one block alone

"""The search for a memory plan with which a training pass fits a number of bytes, and computes as little as possible
again.

The sizes come from the schedule without a plan. A value waits at a node if it is written there before the loss and read
after the loss. A checkpoint behind a node keeps all values that later nodes read. For several bounds of the bytes that
wait in a segment, the checkpoints that keep the fewest bytes are found exactly. Fewer of them compute less again. The
plans are tried in the order of what they compute again, and each is lowered, so its arena is no estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.product_flops import PRODUCTS, macs
from edgefl.learning.lowering.recompute import NO_PLAN, MemoryPlan
from edgefl.learning.lowering.schedule import LOSS, KernelCall, Schedule, Tensor
from edgefl.models.graph import INPUT

BOUNDS = 16  # bounds that are tried
STEP = 0.8  # memory of a pass of the frontier as a part of the one before it, at most
LONGEST_SPLIT = 24  # most nodes of a segment that is split
MOST_TRIED = 16  # plans that are lowered in a search
VALUE_WORK = 4  # multiply-accumulates that take as long as reading or writing a value


class PlannedPass(NamedTuple):
    """A plan, its schedule, and the work that it does again, as a share of the work of the forward pass."""

    plan: MemoryPlan
    schedule: Schedule
    again: float


class ForwardStage(NamedTuple):
    """The calls of one node in the forward pass: bytes that wait, bytes that a checkpoint behind the node keeps, and
    work.
    """

    name: str
    waits: int
    keeps: int
    work: int


class Candidate(NamedTuple):
    plan: MemoryPlan
    work: int
    bytes: int  # estimate of the bytes that live at once


class PlanSearch:
    """The search for plans of one pass.

    lowered  function that lowers the pass with a plan
    base     schedule without a plan
    """

    def __init__(self, lowered: Callable[[MemoryPlan], Schedule], base: Schedule, float_bytes: int = 4) -> None:
        stages = stages_of(base, float_bytes)
        self._lowered, self._base, self._candidates = lowered, base, candidates(stages, base.arena_bytes)
        self._whole = max(1, sum(stage.work for stage in stages))

    def within(self, room: int) -> PlannedPass | None:
        """Return the pass with the least work whose arena has at most `room` bytes, or None if no plan that was tried
        fits.
        """
        if self._base.arena_bytes <= room:
            return PlannedPass(NO_PLAN, self._base, 0.0)
        tried, factor = 0, 1.0  # how much larger an arena was than its estimate
        for each in self._candidates:
            if tried >= MOST_TRIED or each.bytes * factor > room:
                continue
            schedule, tried = self._lowered(each.plan), tried + 1
            if schedule.arena_bytes <= room:
                return PlannedPass(each.plan, schedule, each.work / self._whole)
            factor = max(factor, schedule.arena_bytes / max(each.bytes, 1))
        return None

    def frontier(self) -> list[PlannedPass]:
        """Return passes of which each takes less memory than the one before it, and computes more again. The first pass
        has no plan.
        """
        found = [PlannedPass(NO_PLAN, self._base, 0.0)]
        while (each := self.within(int(found[-1].schedule.arena_bytes * STEP))) is not None:
            found.append(each)
        return found


def candidates(stages: Sequence[ForwardStage], most: int) -> list[Candidate]:
    """Return plans in the order of what they compute again, and of their bytes where that is equal."""
    total = sum(stage.waits for stage in stages)
    beside = max(0, most - total)  # what the pass takes besides the values that wait
    waits = list(accumulate((stage.waits for stage in stages), initial=0))
    found: dict[MemoryPlan, Candidate] = {}
    for splits in ({}, _splits(stages, waits)):
        least = _least_bound(stages, waits, splits)
        for power in range(BOUNDS):
            parts = _segments(stages, waits, splits, int(least * (total / max(least, 1)) ** (power / BOUNDS)))
            for count in range(1, len(parts) + 1):
                each = _candidate(stages, waits, parts[:count], beside)
                found[each.plan] = each
    return sorted(found.values(), key=lambda each: (each.work, each.bytes))


class StageRange(NamedTuple):
    """The stages from `start` up to `end`, without `end`. `split` is the end of a first part that is computed a third
    time, or None.
    """

    start: int
    end: int
    split: int | None


def _least_bound(
    stages: Sequence[ForwardStage], waits: Sequence[int], splits: dict[tuple[int, int], tuple[int, int]]
) -> int:
    """Return the fewest bytes for which there are segments, within one part in 256."""
    low, high = 0, waits[-1]
    while high - low > max(1, waits[-1] // 256):
        middle = (low + high) // 2
        low, high = (low, middle) if _segments(stages, waits, splits, middle) else (middle, high)
    return high


def _splits(stages: Sequence[ForwardStage], waits: Sequence[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return for each short segment the bytes that wait at once if it is split at its best place, and that place."""
    found = {}
    for start in range(len(stages)):
        for end in range(start + 2, min(start + LONGEST_SPLIT, len(stages)) + 1):
            found[start, end] = min(
                (max(waits[end] - waits[at] + stages[at - 1].keeps, waits[at] - waits[start]), at)
                for at in range(start + 1, end)
            )
    return found


def _segments(
    stages: Sequence[ForwardStage], waits: Sequence[int], splits: dict[tuple[int, int], tuple[int, int]], bound: int
) -> list[StageRange]:
    """Return the segments whose checkpoints keep the fewest bytes, where at most `bound` bytes wait at once. What comes
    after the segments is not computed again. Return none where there are no such segments.
    """
    count = len(stages)
    kept, before = [0.0] + [math.inf] * count, [StageRange(0, 0, None)] * (count + 1)
    for end in range(1, count + 1):
        keeps = stages[end - 1].keeps if end < count else 0
        for start in range(end - 1, -1, -1):
            whole, (split_bytes, split) = waits[end] - waits[start], splits.get((start, end), (math.inf, 0))
            if min(whole, split_bytes) > bound and end - start >= LONGEST_SPLIT:
                break
            is_whole = whole + kept[start] <= bound
            fits = is_whole or (end < count and split_bytes + kept[start] <= bound)
            if fits and kept[start] + keeps < kept[end]:
                kept[end], before[end] = kept[start] + keeps, StageRange(start, end, None if is_whole else split)
    if math.isinf(kept[-1]):
        return []
    found, end = [], before[count].start
    while end:
        found.append(before[end])
        end = before[end].start
    return found[::-1]


def _candidate(
    stages: Sequence[ForwardStage], waits: Sequence[int], parts: Sequence[StageRange], beside: int
) -> Candidate:
    """Return the plan with these segments, its work, and an estimate of the bytes that live at once."""
    kept = peak = 0
    for start, end, split in parts:
        within = waits[end] - waits[start]
        if split is not None:
            within = max(waits[end] - waits[split] + stages[split - 1].keeps, waits[split] - waits[start])
        peak = max(peak, kept + within)
        kept += stages[end - 1].keeps
    end = parts[-1].end
    work = sum(stage.work for stage in stages[:end])
    work += sum(stage.work for part in parts if part.split is not None for stage in stages[part.start : part.split])
    inner = tuple(stages[part.split - 1].name for part in parts if part.split is not None)
    plan = MemoryPlan(tuple(stages[part.end - 1].name for part in parts), inner)
    return Candidate(plan, work, max(peak, kept + waits[-1] - waits[end]) + beside // 2)


def stages_of(schedule: Schedule, float_bytes: int) -> list[ForwardStage]:
    """Return the nodes that have calls before the loss, in their order."""
    end = next((at for at, call in enumerate(schedule.calls) if call.node == LOSS), 0)
    last_read: dict[int, int] = {}
    for at, call in enumerate(schedule.calls[:end]):
        last_read |= dict.fromkeys(_buffers(call), at)
    sizes = [aligned(buffer.bytes(float_bytes)) for buffer in schedule.buffers]
    found = []
    for name, first, last in _runs(schedule.calls[:end]):
        written = [which for which, buffer in enumerate(schedule.buffers) if first <= buffer.first <= last]
        waits = sum(sizes[which] for which in written if schedule.buffers[which].last >= end)
        keeps = sum(
            sizes[which]
            for which, buffer in enumerate(schedule.buffers)
            if buffer.first <= last < last_read.get(which, -1)
        )
        work = sum(_work(call) for call in schedule.calls[first : last + 1])
        found.append(ForwardStage(name, waits, keeps, work))
    return found


def _runs(calls: Sequence[KernelCall]) -> Iterator[tuple[str, int, int]]:
    """Yield each node with the positions of its first and its last call."""
    start = 0
    for at, call in enumerate(calls):
        if at + 1 == len(calls) or calls[at + 1].node != call.node:
            if call.node != INPUT:
                yield call.node, start, at
            start = at + 1


def _buffers(call: KernelCall) -> set[int]:
    return {arg.buffer for arg in call.args if isinstance(arg, Tensor)}


def work(schedule: Schedule) -> int:
    """Return the work of a pass: its multiply-accumulates, and the values that its calls read and write, weighted."""
    return sum(map(_work, schedule.calls))


def _work(call: KernelCall) -> int:
    values = sum(math.prod(arg.shape) for arg in call.args if isinstance(arg, Tensor))
    return VALUE_WORK * values + (macs(call) if call.op in PRODUCTS else 0)

"""The frontier of a training step: what it takes if it keeps everything, and if it computes more and more again.

Each pass is one that a learner with a memory limit may choose (learning/lowering/plan_search.py), with its exact
account. Nothing is allocated.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import NamedTuple

from edgefl.learning.lowering.plan_search import PlanSearch, work
from edgefl.learning.lowering.recompute import PLANNED, MemoryPlan
from edgefl.learning.lowering.schedule import Schedule
from edgefl.learning.memory.exact import lowered, parts_of
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.mask_memory import MaskFootprint
from edgefl.learning.memory.training_setup import FLOAT, Pass, TrainingConfiguration


class PlannedFootprint(NamedTuple):
    """A step with a plan.

    footprint  bytes by the account `exact`
    segments   number of segments that are computed again
    work       work of the step by counted operations, where 1 is the work of a step that computes nothing again
    live       bytes of the arena that are in use at each call of the step, in its order
    """

    footprint: Footprint
    segments: int
    work: float
    live: tuple[int, ...]


def frontier(training: TrainingConfiguration) -> list[PlannedFootprint]:
    """Return steps of which each takes less memory than the one before it. The first computes nothing again.

    Raises  ValueError for a method whose round has more than one kind of step, and for a cut. GraphError if a sub-model
            is impossible
    """
    passes = training.passes()
    if len(passes) > 1 or training.cut:
        asked = f"cut={training.cut}" if training.cut else f"method={training.method}"
        raise ValueError(f"plans with {asked}; expected another method, whose steps are of one kind, and no cut")
    one = passes["step"]
    assert one.mode in PLANNED
    held = MaskFootprint.of(one.graph, one.spec, one.density, training.batch)
    of_plan = partial(_of_plan, one, training, held)
    found = PlanSearch(of_plan, of_plan(MemoryPlan()), FLOAT).frontier()
    whole = work(found[0].schedule)
    return [
        PlannedFootprint(
            training.footprint("exact", parts_of(one, [each.schedule], held)),
            len(each.plan.checkpoints),
            work(each.schedule) / whole,
            _live(each.schedule),
        )
        for each in found
    ]


def _of_plan(one: Pass, training: TrainingConfiguration, held: MaskFootprint, plan: MemoryPlan) -> Schedule:
    return lowered(one, one.batches[0], training, held, plan)


def _live(schedule: Schedule) -> tuple[int, ...]:
    change = [0] * (len(schedule.calls) + 2)
    for buffer in schedule.buffers:
        change[buffer.first] += buffer.bytes(FLOAT)
        change[buffer.last + 1] -= buffer.bytes(FLOAT)
    return tuple(accumulate(change))[: len(schedule.calls)]

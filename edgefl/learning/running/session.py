"""A session: the schedules and programs of one mode, set of options and signature of id lists. It lowers nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.memory import BackendMemory
from edgefl.learning.learner import Array, Samples
from edgefl.learning.lowering.active_ids import ActiveIndices
from edgefl.learning.lowering.lower import Mode
from edgefl.learning.lowering.recompute import MemoryPlan
from edgefl.learning.lowering.schedule import Companion, Existing, Schedule
from edgefl.learning.lowering.updates import Terms


@dataclass
class BoundProgram:
    """A program, the batch that it reads, and the data to which it is bound."""

    program: Any
    index: NDArray[np.int32]
    samples: Samples


@dataclass
class Session:
    """The schedules and programs of a session by batch size.

    active, samples  what the next pass trains, and on which data. The schedules hold the very lists of `active`
    cut              name of the result with which a pass for features ends
    scratch          packing memory in bytes that the kernels take for a schedule, where there is a limit
    plans            parts of the forward pass that a schedule computes again, where a limit asks for it
    """

    mode: Mode
    terms: Terms
    active: ActiveIndices
    samples: Samples
    cut: str = ""
    schedules: dict[int, Schedule] = field(default_factory=dict)
    programs: dict[int, BoundProgram] = field(default_factory=dict)
    states: dict[Companion, Array] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)
    plans: dict[int, MemoryPlan] = field(default_factory=dict)
    _held: tuple[Samples, Array] | None = None

    def held(self, home: BackendMemory) -> Array:
        """Return the inputs of the session's samples in the memory where the kernels read them."""
        if self._held is None or self._held[0] is not self.samples:
            self._held = self.samples, home.hold(self.samples.x)
        return self._held[1]

    @property
    def held_bytes(self) -> int:
        """The bytes of these inputs if they are a copy, or else 0."""
        if self._held is None or self._held[1].ctypes.data == self._held[0].x.ctypes.data:
            return 0
        return self._held[1].nbytes

    def is_bound(self, sizes: Collection[int]) -> bool:
        """Return whether there are programs for batches of these sizes, and all programs read the present samples."""
        are_current = all(bound.samples is self.samples for bound in self.programs.values())
        return are_current and all(size in self.programs for size in sizes)

    def follow(self, size: int, plan: MemoryPlan, schedule: Schedule) -> None:
        """Replace the schedule for batches of `size` examples by the schedule of a plan."""
        self.plans[size], self.schedules[size] = plan, schedule
        self.programs.pop(size, None)
        self.scratch.pop(size, None)

    def unbind(self) -> None:
        """Drop everything except the schedules."""
        self.programs.clear()
        self.states.clear()
        self._held = None

    def index_bytes(self, masks: Collection[Existing]) -> int:
        """Return the bytes of the id lists that the schedules share, without the bits of these masks."""
        lists = {id(ids): ids.nbytes for schedule in self.schedules.values() for ids in schedule.id_lists()}
        return sum(nbytes for key, nbytes in lists.items() if key not in {id(bits) for bits in masks})

"""SchedulePlanner: it lowers the schedules of sessions, one for each batch size, and measures them. Nothing is bound
here.
"""

from __future__ import annotations

import math
from functools import partial
from types import ModuleType

from edgefl.learning.lowering.lower import lower_active
from edgefl.learning.lowering.plan_search import PlanSearch
from edgefl.learning.lowering.recompute import NO_PLAN, PLANNED, MemoryPlan
from edgefl.learning.lowering.schedule import Schedule
from edgefl.learning.running.parameter_store import ParameterStore
from edgefl.learning.running.scratch_memory import scratch_bytes
from edgefl.learning.running.session import Session
from edgefl.learning.running.weight_arrays import structures
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec


class SchedulePlanner:
    """A planner of passes over a graph whose parameters lie as a store has them. The session keeps its schedules."""

    def __init__(self, graph: Graph, spec: ModelSpec, store: ParameterStore, backend: ModuleType) -> None:
        self._graph, self._spec, self._store, self._backend = graph, spec, store, backend

    def schedule(self, session: Session, size: int) -> Schedule:
        """Return the schedule for batches of `size` examples, which is lowered when it is first asked for."""
        if size not in session.schedules:
            session.schedules[size] = self.lowered(session, size, session.plans.get(size, NO_PLAN))
        return session.schedules[size]

    def lowered(self, session: Session, size: int, plan: MemoryPlan) -> Schedule:
        """Return a new schedule for batches of `size` examples, which the session does not keep."""
        return lower_active(
            self._graph,
            self._spec,
            size,
            session.active,
            mode=session.mode,
            terms=session.terms,
            float_bytes=self._store.dtype.itemsize,
            sparse=self._store.plans,
            loss=session.samples.loss,
            cut=session.cut,
            plan=plan,
            int8_activations=self._store.int8_activations,
        )

    def within(self, session: Session, size: int, room: int) -> Schedule:
        """Return the schedule whose arena has at most `room` bytes, which becomes the session's, if there is one.

        A step that needs more may compute parts of its forward pass again (lowering/plan_search.py). If no plan fits,
        the schedule stays as it is.
        """
        schedule = self.schedule(session, size)
        if schedule.arena_bytes <= room or session.mode not in PLANNED:
            return schedule
        base = self.lowered(session, size, NO_PLAN) if session.plans.get(size) else schedule
        found = PlanSearch(partial(self.lowered, session, size), base, self._store.dtype.itemsize).within(room)
        if found is None:
            return schedule
        session.follow(size, found.plan, found.schedule)
        return found.schedule

    def scratch_bytes(self, session: Session, size: int) -> int:
        """Return the bytes of packing memory that the kernels take for this schedule."""
        if size not in session.scratch:
            arrays = structures(self._store.sparse)
            session.scratch[size] = scratch_bytes(self._backend, session.schedules[size], arrays)
        return session.scratch[size]

    def state_bytes(self, schedules: list[Schedule]) -> int:
        """Return the bytes of the states of these schedules, such as velocities and moments. Each state counts once."""
        states = {state for schedule in schedules for state in schedule.states}
        return sum(math.prod(state.shape) for state in states) * self._store.dtype.itemsize

"""ProgramBinder: the binding of sessions' schedules to a learner's memory, as programs. No program runs here."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from edgefl.kernels.memory import zeros
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, Samples
from edgefl.learning.lowering.schedule import AuxiliarySlot, Slot, Tensor
from edgefl.learning.running.memory_blocks import MemoryBlocks
from edgefl.learning.running.parameter_store import ParameterStore
from edgefl.learning.running.pass_scalars import PassScalars
from edgefl.learning.running.program_binding import ScheduleMemory, bind
from edgefl.learning.running.session import BoundProgram, Session
from edgefl.learning.running.weight_arrays import structures
from edgefl.models.graph import Graph

DATA_SLOTS = ("x", "y", "scale", "shift", "output_weight")


class ProgramBinder:
    """A binder to these parameters, scalars and blocks. In programs the inputs of a data set have the graph's shape."""

    def __init__(
        self, graph: Graph, store: ParameterStore, scalars: PassScalars, blocks: MemoryBlocks, backend: ModuleType
    ) -> None:
        self._graph, self._store, self._scalars, self._blocks, self._backend = graph, store, scalars, blocks, backend

    def bind(self, session: Session, size: int) -> None:
        """Add to the session the program for batches of `size` examples, and the states that it needs, as zeros."""
        schedule, index = session.schedules[size], np.zeros(size, np.int32)
        for state in schedule.states:
            if state not in session.states:
                session.states[state] = zeros(self._store.home, state.shape, self._store.dtype)
        program = bind(self._backend, schedule, self._memory(session, index))
        session.programs[size] = BoundProgram(program, index, session.samples)

    def rebind(self, session: Session, size: int) -> None:
        """Point the calls of a program that read the data set at the session's present data set."""
        bound, schedule = session.programs[size], session.schedules[size]
        if bound.samples is session.samples:
            return
        memory = self._memory(session, bound.index)
        for position, call in enumerate(schedule.calls):
            if any(isinstance(arg, Slot | AuxiliarySlot) and arg.name in DATA_SLOTS for arg in call.args):
                bound.program.replace(position, call.op, *(memory.resolve(schedule, arg) for arg in call.args))
        bound.samples = session.samples

    def view(self, session: Session, size: int, tensor: Tensor) -> Array:
        """Return the values of a tensor of the schedule for batches of `size`, as the last pass left them
        in the arena.
        """
        found = self._memory(session, session.programs[size].index).view(session.schedules[size], tensor)
        self._store.home.fetch(found)
        return found

    def fill_states(self, session: Session, options: FitOptions) -> None:
        """Set velocities and moments to zero, and fill the other states from the options.

        The other states get the trained coordinates of the options' `pull` and `linear`.
        """
        given: dict[str, Mapping[str, Array]] = {
            "centre": options.pull[1] if options.pull else {},
            "linear": options.linear or {},
        }
        for state, values in session.states.items():
            if state.kind not in given:
                values[:] = 0
                self._store.home.wrote(values)
            else:
                whole = np.ascontiguousarray(given[state.kind][state.param], self._store.dtype)
                self._store.gather(session.active, state.param, whole, values)

    def _memory(self, session: Session, index: NDArray[np.int32]) -> ScheduleMemory:
        samples, store = session.samples, self._store
        x = session.held(store.home).reshape(len(samples.x), *self._graph.input_shape)
        slots = {"x": x, "y": _flat(samples, samples.y), "scale": samples.scale, "shift": samples.shift, "index": index}
        slots |= {f"y {i}": _flat(samples, targets) for i, targets in enumerate(samples.auxiliary)}
        slots |= self._scalars.slots(samples.loss, prod(self._graph.output_shape[1:]))
        arrays = structures(store.sparse)
        return ScheduleMemory(self._blocks.arena, store.dtype, store.params, session.states, slots, arrays)


def _flat(samples: Samples, y: Array) -> Array:
    """Return targets as kernels read them: labels [N] or [N, places], or a row of values for each example."""
    rows, *places = y.shape
    if not places:
        return y
    count = prod(places)
    return y.reshape(rows) if samples.loss.has_labels and count == 1 else y.reshape(rows, count)

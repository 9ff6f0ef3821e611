"""Workspace: the memory of one learner and the programs bound to it. What passes mean is not known here.

A pass is lowered once per batch size, neuron set, options and data set, and bound to one arena, which grows to the
largest pass asked for. The last few sets of programs are kept.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import MemoryLimitError
from edgefl.graph import Graph
from edgefl.learners.arena import aligned
from edgefl.learners.base import Array, Delta, Samples
from edgefl.learners.binding import Memory, aligned_bytes, bind
from edgefl.learners.lowering import Mode, lower, trained_blocks
from edgefl.learners.plan import Plan, State, Tensor
from edgefl.learners.updates import Terms, rows_cols_inner
from edgefl.selection import NeuronSet
from edgefl.spec import ModelSpec

SESSIONS_KEPT = 6


@dataclass
class Session:
    """Plans and programs of one mode, neuron set, set of options and data set, by batch size."""

    mode: Mode
    neurons: NeuronSet | None
    delta: Delta
    terms: Terms
    samples: Samples
    plans: dict[int, Plan] = field(default_factory=dict)
    programs: dict[int, tuple[Any, NDArray[np.int32]]] = field(default_factory=dict)
    states: dict[State, Array] = field(default_factory=dict)


class Workspace:
    """Parameters, arena, counters and settings of one learner, and its sessions.

    limit          bytes that `memory` may come to without the kernels' scratch; None: no limit
    loss, correct  what softmax_xent adds to
    hyper          what sgd reads: lr, momentum, weight decay, pull
    """

    def __init__(
        self,
        graph: Graph,
        spec: ModelSpec,
        params: Mapping[str, Array],
        backend: ModuleType,
        dtype: np.dtype[Any],
        limit: int | None = None,
    ) -> None:
        self.params_bytes = sum(aligned(value.size * dtype.itemsize) for value in params.values())
        self.limit = limit
        self._check_limit("a learner", self.params_bytes)
        self.params = _flat_views(params, dtype)
        self.loss, self.correct, self.hyper = np.zeros(1), np.zeros(1, np.int64), np.zeros(4, dtype)
        self.arena = aligned_bytes(0)
        self._total, self._clip = np.zeros(1), np.zeros(1, dtype)
        self._graph, self._spec, self._backend, self._dtype = graph, spec, backend, dtype
        self._sessions: OrderedDict[tuple[object, ...], Session] = OrderedDict()

    def session(
        self,
        mode: Mode,
        samples: Samples,
        neurons: NeuronSet | None = None,
        delta: Delta = "exact",
        terms: Terms | None = None,
    ) -> Session:
        """The session with these properties, from the kept ones if it is there."""
        chosen = None if neurons is None or neurons.is_full else neurons
        terms = terms or Terms()
        data = id(samples.x), id(samples.y), samples.scale, samples.shift  # alive as long as the session is
        key = (mode, chosen and chosen.hash(), delta, terms, data)
        session = self._sessions.pop(key, None) or Session(mode, chosen, delta, terms, samples)
        self._sessions[key] = session
        while len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        return session

    def drop_latest(self) -> None:
        """Forget the session asked for last, and with it its data."""
        self._sessions.popitem()

    def prepare(self, session: Session, sizes: Collection[int]) -> None:
        """Plan and bind the passes of these batch sizes; a larger arena drops every program bound to the old one.

        Raises  MemoryLimitError, before anything is allocated, if these passes alone exceed the limit.
        """
        for size in sizes:
            if size not in session.plans:
                session.plans[size] = self._lower(session, size)
        arena_bytes = max(session.plans[size].arena_bytes for size in sizes)
        if self.limit is not None and self._needed(max(arena_bytes, self.arena.nbytes)) > self.limit:
            self._keep_only(session, sizes)
            try:
                self._check_limit(f"{session.mode} in batches of {max(sizes)}", self._needed(arena_bytes))
            except MemoryLimitError:
                self.drop_latest()
                raise
        self._reserve(arena_bytes)
        for size in sizes:
            if size not in session.programs:
                index = np.zeros(size, np.int32)
                session.programs[size] = self._bind(session, session.plans[size], index), index

    def view(self, session: Session, size: int, tensor: Tensor) -> Array:
        """The array that a tensor of the plan for batches of `size` stands for."""
        return self._memory(session, session.programs[size][1]).view(session.plans[size], tensor)

    def fill_states(self, session: Session, centre: Mapping[str, Array], linear: Mapping[str, Array]) -> None:
        """Zero the velocities and gather the active blocks of the other states from whole parameters."""
        blocks = trained_blocks(self._spec, session.neurons)
        given = {"centre": centre, "linear": linear}
        for state, values in session.states.items():
            if state.kind == "velocity":
                values[:] = 0
            else:
                source = np.ascontiguousarray(given[state.kind][state.param], self._dtype)
                self._backend.take_axes(source.reshape(rows_cols_inner(source.shape)), *blocks[state.param], values)

    def release(self) -> None:
        """Give back everything but the parameters."""
        self._sessions.clear()
        self.arena = aligned_bytes(0)

    def memory(self) -> dict[str, int]:
        """Bytes held now, by purpose; see GraphLearner.memory."""
        sessions = list(self._sessions.values())
        scratch = getattr(self._backend, "scratch_bytes", None)
        return {
            "params": self.params_bytes,
            "arena": self.arena.nbytes,
            "states": sum(value.nbytes for session in sessions for value in session.states.values()),
            "indices": sum(plan.index_bytes() for session in sessions for plan in session.plans.values()),
            "scratch": scratch() if scratch else 0,
        }

    def _needed(self, arena_bytes: int) -> int:
        """Bytes with that arena, once all plans of the kept sessions are bound."""
        total = self.params_bytes + arena_bytes
        for session in self._sessions.values():
            states = {state for plan in session.plans.values() for state in plan.states}
            total += sum(math.prod(state.shape) for state in states) * self._dtype.itemsize
            total += sum(plan.index_bytes() for plan in session.plans.values())
        return total

    def _keep_only(self, session: Session, sizes: Collection[int]) -> None:
        """Give back everything but the parameters and the plans of these batch sizes of the session asked for last."""
        key, _ = self._sessions.popitem()
        self.release()
        session.plans = {size: session.plans[size] for size in sizes}
        session.programs.clear()
        session.states.clear()
        self._sessions[key] = session

    def _check_limit(self, what: str, needed: int) -> None:
        if self.limit is not None and needed > self.limit:
            raise MemoryLimitError(f"{what} needs {needed} bytes; limit_bytes={self.limit}")

    def _lower(self, session: Session, batch: int) -> Plan:
        return lower(
            self._graph,
            self._spec,
            batch,
            session.neurons,
            mode=session.mode,
            delta=session.delta,
            terms=session.terms,
            float_bytes=self._dtype.itemsize,
        )

    def _reserve(self, size: int) -> None:
        if size > self.arena.nbytes:
            for session in self._sessions.values():
                session.programs.clear()
            self.arena = aligned_bytes(0)  # frees the old arena before the new one is allocated
            self.arena = aligned_bytes(size)

    def _bind(self, session: Session, plan: Plan, index: NDArray[np.int32]) -> Any:
        for state in plan.states:
            if state not in session.states:
                session.states[state] = np.zeros(state.shape, self._dtype)
        return bind(self._backend, plan, self._memory(session, index))

    def _memory(self, session: Session, index: NDArray[np.int32]) -> Memory:
        samples = session.samples
        slots = {"x": samples.x, "y": samples.y, "scale": samples.scale, "shift": samples.shift, "index": index}
        slots |= {"loss": self.loss, "correct": self.correct, "hyper": self.hyper}
        slots |= {"total": self._total, "total_bits": self._total.view(np.float32), "clip": self._clip}
        return Memory(self.arena, self._dtype, self.params, session.states, slots)


def _flat_views(params: Mapping[str, Array], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Copies of the parameters in one new buffer, each on a cache line."""
    flat = aligned_bytes(sum(aligned(value.size * dtype.itemsize) for value in params.values()))
    views, start = {}, 0
    for name, value in params.items():
        size = value.size * dtype.itemsize
        views[name] = flat[start : start + size].view(dtype).reshape(value.shape)
        views[name][...] = value
        start += aligned(size)
    return views

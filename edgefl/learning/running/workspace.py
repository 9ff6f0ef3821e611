"""Workspace: the memory of one learner and the programs bound to it. It does not know what passes mean.

A pass is lowered once per batch size, options and number of trained neurons. It is bound to one arena, which grows to
the largest pass asked for. Other neurons and other data replace the former ones in existing programs. The last few sets
of programs are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from edgefl.kernels.memory import give_back
from edgefl.learning.learner import Array
from edgefl.learning.lowering.sparse_weight import Sparse
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.memory_account import MemoryAccount, MemoryLimit
from edgefl.learning.running.memory_blocks import MemoryBlocks
from edgefl.learning.running.operation_meter import FlopCounter
from edgefl.learning.running.parameter_layouts import ParameterLayout
from edgefl.learning.running.parameter_store import ParameterStore, own_params, padded_bytes
from edgefl.learning.running.pass_scalars import PassScalars
from edgefl.learning.running.program_binder import ProgramBinder
from edgefl.learning.running.schedule_planner import SchedulePlanner
from edgefl.learning.running.session import Session
from edgefl.learning.running.session_cache import SessionCache
from edgefl.models.graph import Graph
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.model_spec import ModelSpec

SIZES_KEPT = 8  # batch sizes of a session whose schedules outlive a pass in other batch sizes


class Workspace:
    """The memory that the passes of one learner work on.

    store     parameters of the learner
    scalars   settings and sums of its passes
    blocks    arena, and the results that are kept between passes
    sessions  schedules and programs
    binder    maker of programs, and reader of their results
    account   bytes of all of these, within the limit
    meter     operations that the learner and its relatives have executed
    """

    store: ParameterStore
    blocks: MemoryBlocks
    account: MemoryAccount

    def __init__(
        self,
        graph: Graph,
        spec: ModelSpec,
        params: Mapping[str, Array],
        backend: ModuleType,
        dtype: np.dtype[Any],
        limit_bytes: int | None = None,
        relative: Workspace | None = None,
        in_its_arena: bool = False,
        in_place: Collection[str] = (),
        int8_activations: bool = False,
    ) -> None:
        """Make the memory of a learner of these parameters.

        limit_bytes  most bytes that the learner may hold, or None for no limit. A relative's limit holds here, too
        relative     workspace of the learner from which this one derives. Parameters that are the very arrays of the
                     relative are shared with it
        in_its_arena  whether the passes lie in the relative's arena. Then the two learners never run at once
        in_place     names of the parameters that are used in the caller's arrays, which nobody changes
        int8_activations  whether evaluations and predictions round the inputs of int8 weights, as a relative's do
        Raises       MemoryLimitError if the parameters alone exceed the limit
        """
        shared = {} if relative is None else relative.store.params
        limit = MemoryLimit(limit_bytes) if relative is None else relative.account.limit
        theirs = 0 if relative is None else relative.account.family_params_bytes
        limit.check("a learner", theirs + padded_bytes(own_params(params, shared).values(), dtype))
        graph = planar(graph)
        self.meter: FlopCounter = FlopCounter() if relative is None else relative.meter
        int8_activations = int8_activations if relative is None else relative.store.int8_activations
        self.store = ParameterStore(spec, params, shared, backend, dtype, in_place, int8_activations)
        lender = relative.blocks if relative is not None and in_its_arena else None
        self.scalars = PassScalars(dtype, [each.weight for each in graph.auxiliary])
        self.blocks = MemoryBlocks(self.store.home, lender)
        self._bound_to = self.blocks.arena
        self.sessions = SessionCache(graph, spec)
        self._planner = SchedulePlanner(graph, spec, self.store, backend)
        self.binder = ProgramBinder(graph, self.store, self.scalars, self.blocks, backend)
        elder = None if relative is None else relative.account
        self.account = MemoryAccount(limit, elder, self.store, self.sessions, self.blocks, self._planner, backend)

    def restrict(self, restriction: Restriction, sparse: Sparse) -> None:
        """Keep to a mask from now on, with these weights as values alone. Coordinates that the mask leaves out are 0.0.

        Schedules and programs are kept if the sparse weights have as many coordinates as before. Schedules alone are
        kept if the sparse weights had as many coordinates a while ago.
        """
        whole = tuple(name for name in restriction if name not in sparse)
        self.sessions.turn_to(ParameterLayout(whole, tuple(sparse.values())), restriction)
        self.store.restrict(restriction, sparse)

    def prepare(self, session: Session, sizes: Collection[int]) -> None:
        """Plan and bind the passes of a session in batches of these sizes. A larger arena drops the programs bound to
        the old one. A step that exceeds the limit computes parts of its forward pass again, if it fits so.

        Raises  MemoryLimitError, before anything is allocated, if these passes alone exceed the limit
        """
        is_current = self._bound_to is self.blocks.arena and len(session.schedules) <= SIZES_KEPT
        if is_current and not self.account.limit.limit_bytes and session.is_bound(sizes):
            return
        arena_bytes = max(self._planner.schedule(session, size).arena_bytes for size in sizes)
        room = self.account.room(session, sizes)
        if room is not None and arena_bytes > room:
            arena_bytes = max(self._planner.within(session, size, room).arena_bytes for size in sizes)
            give_back()  # the search has freed megabytes of schedules
        self.account.make_room(session, sizes, arena_bytes)
        if arena_bytes > self.blocks.arena.nbytes:
            self.blocks.grow_arena(arena_bytes)
        if self._bound_to is not self.blocks.arena:
            self.sessions.drop_programs()
            self._bound_to = self.blocks.arena
        for size in [kept for kept in session.schedules if kept not in sizes][:-SIZES_KEPT]:
            session.schedules.pop(size)
            session.programs.pop(size, None)
        for size in session.programs:
            self.binder.rebind(session, size)
        for size in sizes:
            if size not in session.programs:
                self.binder.bind(session, size)

"""Workspace: the memory of one learner and the programs bound to it. What passes mean is not known here.

A pass is lowered once per batch size, options and number of trained neurons, and bound to one arena, which grows to the
largest pass asked for. Other neurons and other data take the place of the former ones in programs that are there. The
last few sets of programs are kept.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import MemoryLimitError
from edgefl.kernels.memory import BackendMemory as Home
from edgefl.kernels.memory import aligned_bytes, memory_of, zeros
from edgefl.kernels.table import ADAM, ADAM_RATES
from edgefl.learning.learner import Array, Delta, Samples, Trainable
from edgefl.learning.losses import Loss
from edgefl.learning.lowering.active_ids import ActiveIndices, Growth
from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.lower import TRAINING, Mode, lower_active
from edgefl.learning.lowering.schedule import Existing, Schedule, Slot, Tensor
from edgefl.learning.lowering.sparse_weight import Sparse
from edgefl.learning.lowering.updates import Terms, rows_cols_inner
from edgefl.learning.optimizers import Adam, Optimizer
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.operation_meter import FlopCounter
from edgefl.learning.running.parameter_layouts import Layouts, ParameterLayout, Sessions
from edgefl.learning.running.program_binding import ScheduleMemory, bind
from edgefl.learning.running.scratch_memory import scratch_bytes
from edgefl.learning.running.session import BoundProgram, Session
from edgefl.learning.running.weight_arrays import Compact, Weights, structures
from edgefl.models.graph import Graph
from edgefl.models.graph.planar import planar
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

SESSIONS_KEPT = 6
SIZES_KEPT = 8  # batch sizes of a session whose schedules outlive a pass that has none of them
DATA_SLOTS = ("x", "y", "scale", "shift", "output_weight")


class Workspace:
    """Parameters, arena, counters and settings of one learner, and its sessions.

    limit          bytes that `memory` may come to, with all relatives; None: no limit
    relative       one whose parameters this one has too where they are the very arrays, and whose limit it shares
    params         the arrays that schedules refer to; of a weight in `sparse` its values
    loss, correct  what the kernel of a loss adds to
    hyper          what sgd reads: lr, momentum, weight decay, pull
    dropout        where its stream is: key, step, first example of the batch
    meter          what was executed, with all relatives
    """

    def __init__(
        self,
        graph: Graph,
        spec: ModelSpec,
        params: Mapping[str, Array],
        backend: ModuleType,
        dtype: np.dtype[Any],
        limit: int | None = None,
        relative: Workspace | None = None,
    ) -> None:
        self._family: WeakSet[Workspace] = WeakSet() if relative is None else relative._family
        self._elder = relative  # kept alive, so that what it holds is counted
        self.meter: FlopCounter = FlopCounter() if relative is None else relative.meter
        theirs = {} if relative is None else relative.params
        own = {name: value for name, value in params.items() if value is not theirs.get(name)}
        self.model_bytes, self.params_bytes = (
            sum(aligned(value.size * dtype.itemsize) for value in held.values()) for held in (params, own)
        )
        self.limit = limit
        self._check_limit("a learner", self.params_bytes + sum(each.params_bytes for each in self._family))
        self._family.add(self)
        self._home = memory_of(backend)
        views = {**params, **_flat_views(own, dtype, self._home)}
        self.params: dict[str, Array] = {name: views[name] for name in params}
        self.sparse: dict[str, Compact] = {}
        self.loss, self.correct, self.hyper = np.zeros(1), np.zeros(1, np.int64), np.zeros(4, dtype)
        self.arena = aligned_bytes(0)
        self._kept = aligned_bytes(0)
        self._total, self._clip = np.zeros(1), np.zeros(1, dtype)
        self.dropout = np.zeros(3, np.int64)
        self._adam, self._adam_steps = np.zeros(len(ADAM)), np.zeros(1, np.int64)
        self._rates = np.zeros(len(ADAM_RATES), dtype)
        self._scratch = 0  # of the passes so far; kept by the kernels, so it is counted only where there is a limit
        self._graph, self._spec, self._backend, self._dtype = planar(graph), spec, backend, dtype
        self._sessions: Sessions = OrderedDict()
        self._layouts, self._layout = Layouts(), ParameterLayout()
        self._restriction = Restriction(spec)
        self._masks: dict[str, Existing] = {}  # of masked parameters that lie whole

    def session(
        self,
        mode: Mode,
        samples: Samples,
        trainable: Trainable = None,
        delta: Delta = "exact",
        terms: Terms | None = None,
        grown: Mapping[str, Growth] | None = None,
        cut: str = "",
    ) -> Session:
        """The session with these properties, from the kept ones if it is there.

        grown   in mode "grow", what is sought
        cut     in mode "features", where it ends
        Raises  SelectionError if `trainable` are neurons of another model, or there are masks beside them.
        """
        if isinstance(trainable, NeuronSet):
            trainable.check(self._spec)
        chosen = None if isinstance(trainable, NeuronSet) and trainable.is_full else trainable
        terms = terms or Terms()
        active = self._active(mode, chosen, delta, grown or {})
        key = (mode, cut, active.signature, delta, terms, samples.x.dtype, samples.loss)
        session = self._sessions.pop(key, None)
        if session is None or grown:
            session = Session(mode, terms, active, samples, cut)
        session.active.adopt(active)
        session.samples = samples
        self._sessions[key] = session
        while len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        return session

    def _active(self, mode: Mode, trainable: Trainable, delta: Delta, grown: Mapping[str, Growth]) -> ActiveIndices:
        if mode == "grow":
            return ActiveIndices.growing(self._graph, self._spec, grown)
        return (
            ActiveIndices.of(self._graph, self._spec, trainable, delta, self._masks)
            if mode in TRAINING
            else ActiveIndices()
        )

    def restrict(self, restriction: Restriction, sparse: Sparse) -> None:
        """Keep to a mask from now on, with these weights as values alone; what it leaves out is 0.

        Where as many coordinates of sparse weights existed before, schedules and programs are kept; where they did a
        while ago, schedules are.
        """
        dense, is_as_before = tuple(name for name in restriction if name not in sparse), self.plans == dict(sparse)
        self._turn_to(ParameterLayout(dense, tuple(sparse.values())), restriction)
        if not is_as_before:
            self._store(sparse, restriction)
        else:
            for name, each in self.sparse.items():
                each.move(restriction.bits(name), self._backend)
        for name, bits in self._masks.items():
            bits[:] = restriction.packed(name)
            self._clear(restriction, name, self.params[name])
        self._restriction = restriction

    def clear(self, name: str) -> None:
        """Set to 0.0 what the mask leaves out of a parameter that lies whole."""
        if name not in self.sparse:
            self._clear(self._restriction, name, self.params[name])

    def _clear(self, restriction: Restriction, name: str, whole: Array) -> None:
        if name in restriction:
            self._home.fetch(whole)
            restriction.clear(name, whole)
            self._home.wrote(whole)

    def _turn_to(self, layout: ParameterLayout, restriction: Restriction) -> None:
        """Take up the sessions of another layout of the parameters, where they are waiting."""
        if layout == self._layout:
            return
        self._layouts.leave(self._layout, self._sessions, self._masks)
        bits = {name: np.zeros_like(restriction.packed(name)) for name in layout.masked}
        self._sessions, self._masks = self._layouts.enter(layout) or (OrderedDict(), bits)
        self._layout = layout

    def _store(self, sparse: Sparse, restriction: Restriction) -> None:
        """Lay the parameters out anew: these weights as values alone, the others in one block."""
        before = Weights(dict(self.params), dict(self.sparse), self._home)
        whole = {name: before.read(name) for name in before if name not in sparse}
        self.sparse.clear()
        for name, plan in sparse.items():
            self.sparse[name] = compact = Compact(plan, self._dtype, self._home)
            compact.build(restriction.bits(name), self._backend)
            compact.set(before.read(name))
        views = {
            **_flat_views(whole, self._dtype, self._home),
            **{name: each.values for name, each in self.sparse.items()},
        }
        for name in before:
            self.params[name] = views[name]
        self.model_bytes = self.params_bytes = sum(aligned(view.nbytes) for view in views.values())

    @property
    def is_alone(self) -> bool:
        """Whether no other learner shares its parameters."""
        return len(self._family) == 1 and self._elder is None

    @property
    def plans(self) -> Sparse:
        """The weights that are there as values alone."""
        return {name: each.plan for name, each in self.sparse.items()}

    def drop_latest(self) -> None:
        """Forget the session asked for last, and with it its data."""
        self._sessions.popitem()

    def prepare(self, session: Session, sizes: Collection[int]) -> None:
        """Plan and bind the passes of these batch sizes; a larger arena drops every program bound to the old one.

        Raises  MemoryLimitError, before anything is allocated, if these passes alone exceed the limit.
        """
        for size in sizes:
            if size not in session.schedules:
                session.schedules[size] = self._lower(session, size)
        arena_bytes = max(session.schedules[size].arena_bytes for size in sizes)
        if self.limit is not None:
            self._admit(session, sizes, arena_bytes)
        self._reserve(arena_bytes)
        for size in [kept for kept in session.schedules if kept not in sizes][:-SIZES_KEPT]:
            session.schedules.pop(size)
            session.programs.pop(size, None)
        for size, bound in session.programs.items():
            self._rebind(session, session.schedules[size], bound)
        for size in sizes:
            if size not in session.programs:
                index = np.zeros(size, np.int32)
                program = self._bind(session, session.schedules[size], index)
                session.programs[size] = BoundProgram(program, index, session.samples)

    @property
    def floats(self) -> np.dtype[Any]:
        """The type of activations, gradients and parameters."""
        return self._dtype

    @property
    def float_bytes(self) -> int:
        """Of one such value."""
        return self._dtype.itemsize

    def admit(self, what: str, size: int) -> None:
        """Raises MemoryLimitError if `size` bytes beside the parameters exceed the limit."""
        self._check_limit(what, self.model_bytes + size)

    def view(self, session: Session, size: int, tensor: Tensor) -> Array:
        """What a tensor of the schedule for batches of `size` stands for, as the last pass left it."""
        found = self._memory(session, session.programs[size].index).view(session.schedules[size], tensor)
        self._home.fetch(found)
        return found

    def set_rates(self, optimizer: Optimizer, pull: float) -> None:
        """What the steps of a fit multiply by; Adam's have not begun."""
        if isinstance(optimizer, Adam):
            decoupled = float(optimizer.decoupled)
            rates = optimizer.lr, *optimizer.betas, optimizer.eps, optimizer.weight_decay, decoupled, pull
            self._adam[:], self._adam_steps[0] = rates, 0
        else:
            self.hyper[:] = optimizer.lr, optimizer.momentum, optimizer.weight_decay, pull

    def loss_sum(self, share: float) -> float:
        """The sum of losses since it was set to 0, times `share`: examples over what their mean divides by."""
        return float(self.loss[0]) * share

    def fill_states(self, session: Session, centre: Mapping[str, Array], linear: Mapping[str, Array]) -> None:
        """Zero velocities and moments, and gather the active blocks of the other states from whole parameters."""
        given = {"centre": centre, "linear": linear}
        for state, values in session.states.items():
            if state.kind not in given:
                values[:] = 0
                self._home.wrote(values)
            else:
                source = np.ascontiguousarray(given[state.kind][state.param], self._dtype)
                self._fill(session.active, state.param, source, values)

    def _fill(self, active: ActiveIndices, name: str, source: Array, values: Array) -> None:
        """values = what of a whole parameter is trained."""
        if name in self.sparse:
            values[...] = self.sparse[name].at(source)
            self._home.wrote(values)
        else:
            self._backend.take_axes(source.reshape(rows_cols_inner(source.shape)), *active.blocks[name], values)
        if name in active.masked:
            self._clear(self._restriction, name, values.reshape(source.shape))

    def keeping(self, size: int) -> NDArray[np.uint8]:
        """Memory of so many bytes for what is kept between passes. Like the arena it grows to the most asked for."""
        if size > self._kept.nbytes:
            self._kept = self._block(size, "results to keep")
        return self._kept[:size]

    def takes(self, *passes: tuple[Workspace, Session, Collection[int]]) -> int:
        """Bytes of these passes together, of workspaces that share parameters, beside which nothing else is held."""
        params, held, scratch = sum(each.params_bytes + each._mask_bytes for each in self._family), 0, 0
        for work, session, sizes in passes:
            for size in sizes:
                if size not in session.schedules:
                    session.schedules[size] = work._lower(session, size)
            schedules = [session.schedules[size] for size in sizes]
            held += max(schedule.arena_bytes for schedule in schedules) + session.index_bytes(work._masks.values())
            states = {state for schedule in schedules for state in schedule.states}
            held += sum(math.prod(state.shape) for state in states) * self._dtype.itemsize
            scratch = max(scratch, *(work._scratch_of(session, size) for size in sizes))
        return params + held + scratch

    def release_family(self) -> None:
        """Let it and its relatives give back everything but parameters."""
        for each in self._family:
            each.release()

    def release(self) -> None:
        """Give back everything but the parameters."""
        self._sessions.clear()
        self._layouts.clear()
        self.arena, self._kept = aligned_bytes(0), aligned_bytes(0)

    def memory(self) -> dict[str, int]:
        """Bytes that it and its relatives hold now, by purpose; see GraphLearner.memory."""
        scratch = getattr(self._backend, "scratch_bytes", None)
        parts = [each._own_memory() for each in self._family]
        total = {name: sum(part[name] for part in parts) for name in parts[0]}
        for name in ("features", "samples"):
            if not total[name]:
                del total[name]
        return {**total, "scratch": scratch() if scratch else 0}

    def _own_memory(self) -> dict[str, int]:
        sessions = list(self._sessions.values())
        return {
            "params": self.params_bytes,
            "arena": self.arena.nbytes,
            "features": self._kept.nbytes,
            "samples": sum(session.held_bytes for session in sessions),
            "states": sum(value.nbytes for session in sessions for value in session.states.values()),
            "indices": sum(each.index_bytes(self._masks.values()) for each in sessions) + self._mask_bytes,
        }

    def _admit(self, session: Session, sizes: Collection[int], arena_bytes: int) -> None:
        """Make room for these passes within the limit, at the cost of others; see prepare."""
        assert self.limit is not None
        what = f"{session.mode} in batches of {max(sizes)}"
        self._check_limit(what, self.params_bytes + arena_bytes)  # before the kernels are asked on an arena so large
        scratch = max(self._scratch, *(self._scratch_of(session, size) for size in sizes))
        if self._needed(max(arena_bytes, self.arena.nbytes) + scratch) > self.limit:
            for relative in self._relatives():
                relative.release()
        if self._needed(max(arena_bytes, self.arena.nbytes) + scratch) > self.limit:
            self._keep_only(session, sizes)
            try:
                self._check_limit(what, self._needed(arena_bytes + scratch))
            except MemoryLimitError:
                self.drop_latest()
                raise
        self._scratch = scratch

    def _scratch_of(self, session: Session, size: int) -> int:
        if size not in session.scratch:
            session.scratch[size] = scratch_bytes(self._backend, session.schedules[size], structures(self.sparse))
        return session.scratch[size]

    def _needed(self, shared: int) -> int:
        """Bytes once all schedules of the kept sessions are bound, with `shared` for what passes take turns in."""
        total = self.params_bytes + shared + sum(sum(each._own_memory().values()) for each in self._relatives())
        total += self._mask_bytes + self._kept.nbytes
        for session in self._sessions.values():
            states = {state for schedule in session.schedules.values() for state in schedule.states}
            total += sum(math.prod(state.shape) for state in states) * self._dtype.itemsize
            total += session.index_bytes(self._masks.values())
        return total

    @property
    def _mask_bytes(self) -> int:
        """Bytes of what says which coordinates exist: structures, and bits, of the learner and of its programs, and of
        what waits.
        """
        bits = self._layouts.nbytes + self._restriction.nbytes + sum(each.nbytes for each in self._masks.values())
        return bits + sum(each.index_bytes for each in self.sparse.values())

    def _relatives(self) -> list[Workspace]:
        return [each for each in self._family if each is not self]

    def _keep_only(self, session: Session, sizes: Collection[int]) -> None:
        """Give back all but the parameters and the schedules of these batch sizes of the session asked for last."""
        key, _ = self._sessions.popitem()
        self.release()
        session.schedules = {size: session.schedules[size] for size in sizes}
        session.programs.clear()
        session.states.clear()
        self._sessions[key] = session

    def _check_limit(self, what: str, needed: int) -> None:
        if self.limit is not None and needed > self.limit:
            raise MemoryLimitError(f"{what} needs {needed} bytes; limit_bytes={self.limit}")

    def _lower(self, session: Session, batch: int) -> Schedule:
        return lower_active(
            self._graph,
            self._spec,
            batch,
            session.active,
            mode=session.mode,
            terms=session.terms,
            float_bytes=self._dtype.itemsize,
            sparse=self.plans,
            loss=session.samples.loss,
            cut=session.cut,
        )

    def _reserve(self, size: int) -> None:
        if size > self.arena.nbytes:
            for session in self._sessions.values():
                session.programs.clear()
            self.arena = aligned_bytes(0)  # frees the old arena before the new one is allocated
            self.arena = self._block(size, "an arena")

    def _block(self, size: int, what: str) -> NDArray[np.uint8]:
        """New memory. Raises MemoryLimitError where there is not so much."""
        try:
            return self._home.block(size)
        except (MemoryError, ValueError, OverflowError):  # the latter two: not even addresses
            raise MemoryLimitError(f"{what} of {size} bytes; this machine has not so much memory") from None

    def _bind(self, session: Session, schedule: Schedule, index: NDArray[np.int32]) -> Any:
        for state in schedule.states:
            if state not in session.states:
                session.states[state] = zeros(self._home, state.shape, self._dtype)
        return bind(self._backend, schedule, self._memory(session, index))

    def _rebind(self, session: Session, schedule: Schedule, bound: BoundProgram) -> None:
        """Point the calls that read the data set at the session's."""
        if bound.samples is session.samples:
            return
        memory = self._memory(session, bound.index)
        for position, call in enumerate(schedule.calls):
            if any(isinstance(arg, Slot) and arg.name in DATA_SLOTS for arg in call.args):
                bound.program.replace(position, call.op, *(memory.resolve(schedule, arg) for arg in call.args))
        bound.samples = session.samples

    def _memory(self, session: Session, index: NDArray[np.int32]) -> ScheduleMemory:
        samples = session.samples
        x = session.held(self._home).reshape(len(samples.x), *self._graph.input_shape)
        slots = {"x": x, "y": samples.y, "scale": samples.scale, "shift": samples.shift, "index": index}
        slots |= {"loss": self.loss, "correct": self.correct, "hyper": self.hyper}
        slots |= {"total": self._total, "total_bits": self._total.view(np.float32), "clip": self._clip}
        slots |= {"dropout": self.dropout}
        slots["output_weight"] = _output_weight(samples.loss, self._dtype)
        slots |= {"adam": self._adam, "adam_steps": self._adam_steps, "rates": self._rates}
        return ScheduleMemory(self.arena, self._dtype, self.params, session.states, slots, structures(self.sparse))


def _output_weight(loss: Loss, dtype: np.dtype[Any]) -> Array | None:
    """What a loss weighs outputs with, if it does."""
    weight = getattr(loss, "weight", None) or getattr(loss, "pos_weight", None)
    return None if weight is None else np.array(weight, dtype)


def _flat_views(params: Mapping[str, Array], dtype: np.dtype[Any], home: Home) -> dict[str, Array]:
    """Copies of the parameters in one new buffer, each on a cache line."""
    flat = home.block(sum(aligned(value.size * dtype.itemsize) for value in params.values()))
    views, start = {}, 0
    for name, value in params.items():
        size = value.size * dtype.itemsize
        views[name] = flat[start : start + size].view(dtype).reshape(value.shape)
        views[name][...] = value
        start += aligned(size)
    home.wrote(flat)
    return views

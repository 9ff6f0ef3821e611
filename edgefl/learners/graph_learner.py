"""GraphLearner: the Learner over a Graph, on any kernel backend and without torch.

A pass is lowered to a plan once per batch size, neuron set and options, bound to one arena, and then run by the
backend's Program: no Python and no allocation per step with the native backend. The last few programs are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgefl import kernels
from edgefl.errors import BackendError, DataError, TrainingError
from edgefl.graph import Model
from edgefl.learners.arena import aligned
from edgefl.learners.base import SGD, Array, Batches, Delta, Evaluation, FitResult, FrozenStats, Pull, Samples
from edgefl.learners.binding import Memory, aligned_bytes, bind
from edgefl.learners.lowering import Mode, lower, trained_blocks
from edgefl.learners.plan import Plan, State
from edgefl.learners.updates import Terms
from edgefl.selection import NeuronSet
from edgefl.spec import ModelSpec

SESSIONS_KEPT = 6
EVALUATION_BATCH = 256
EVALUATION_ARENA_BYTES = 4 << 20


@dataclass
class _Session:
    """Plans and programs of one mode, neuron set, set of options and data set, by batch size."""

    mode: Mode
    neurons: NeuronSet | None
    delta: Delta
    terms: Terms
    samples: Samples
    plans: dict[int, Plan] = field(default_factory=dict)
    programs: dict[int, tuple[Any, NDArray[np.int32]]] = field(default_factory=dict)
    states: dict[State, Array] = field(default_factory=dict)


class GraphLearner:
    """A model that trains and predicts in place, in one arena that grows to the largest pass asked for.

    model    copied; the model's own arrays are not touched
    backend  "native", "numba" or "reference"; None: kernels.backend chooses
    dtype    float32, or float64 with the reference backend (then samples must be uint8 or float64)
    Raises   GraphError if the parameters do not fit the graph; BackendError for float64 on another backend.
    """

    def __init__(self, model: Model, backend: str | None = None, dtype: DTypeLike = np.float32) -> None:
        model.graph.check(model.params)
        self._backend: ModuleType = kernels.backend(backend)
        self._dtype = np.dtype(dtype)
        if self._dtype != np.float32 and not self._backend.__name__.endswith(".reference"):
            raise BackendError(f"dtype={self._dtype} with {self._backend.__name__}; expected float32, or reference")
        self.graph = model.graph
        self.spec = ModelSpec.of(model.graph)
        self._params = _flat_views(model.params, self._dtype)
        self._loss, self._correct = np.zeros(1), np.zeros(1, np.int64)
        self._hyper, self._total, self._clip = np.zeros(4, dtype), np.zeros(1), np.zeros(1, dtype)
        self._sessions: OrderedDict[tuple[object, ...], _Session] = OrderedDict()
        self._arena = aligned_bytes(0)
        self._evaluation_batch: int | None = None

    @property
    def params(self) -> Mapping[str, Array]:
        """Every parameter by torch's name: views of one buffer that can be written in place."""
        return self._params

    def fit(
        self,
        samples: Samples,
        batches: Batches,
        sgd: SGD,
        trainable: NeuronSet | None = None,
        pull: Pull | None = None,
        linear: Mapping[str, Array] | None = None,
        delta: Delta = "exact",
        bn_frozen: FrozenStats = "track",
    ) -> FitResult:
        """One SGD step per batch, in order, on the blocks that `trainable` selects (None: all).

        samples    rows that the batches' int32 indices name
        trainable  everything outside its blocks keeps its bits, except running statistics of frozen channels, which
                   follow the batches ("track") unless bn_frozen="freeze" restores them at the end
        pull       (mu, centre): adds mu/2 |w - centre|^2 to the loss; centre holds the model's parameters
        linear     adds the inner product of w with these parameters to the loss
        Velocities start at zero in every call. A non-finite loss does not stop the call: it is in the result.
        Raises     DataError if an index, a label or a shape does not fit; TrainingError without batches.
        """
        self._check(samples)
        if not batches:
            raise TrainingError("fit with 0 batches; expected at least one")
        for batch in batches:
            _check_index(batch, len(samples))
        terms = Terms(sgd.momentum > 0, sgd.clip, pull is not None, linear is not None)
        session = self._session("train", trainable, delta, terms, samples)
        self._hyper[:] = sgd.lr, sgd.momentum, sgd.weight_decay, pull[0] if pull else 0.0
        self._prepare(session, {len(batch) for batch in batches})
        self._fill_states(session, pull[1] if pull else {}, linear or {})
        frozen = self._frozen_stats(trainable) if bn_frozen == "freeze" else {}
        self._loss[0] = 0.0
        for size, run in groupby(batches, key=len):
            program, index = session.programs[size]
            program.run_batches(index, np.stack(list(run)))
        for name, (rows, values) in frozen.items():
            self._params[name][rows] = values
        return FitResult(float(self._loss[0]), sum(map(len, batches)), len(batches))

    def gradient(
        self,
        samples: Samples,
        index: NDArray[np.int32],
        trainable: NeuronSet | None = None,
        delta: Delta = "exact",
    ) -> dict[str, Array]:
        """Gradient of the mean loss over `index` as one batch: parameter -> its compact block [|rows|, |cols|, ...].

        Batch statistics are used and running statistics are left alone. Raises DataError like `fit`.
        """
        self._check(samples)
        _check_index(index, len(samples))
        session = self._session("gradient", trainable, delta, Terms(), samples)
        self._prepare(session, {len(index)})
        stats = {name: self._params[name].copy() for name, p in self.spec.params.items() if p.kind == "stat"}
        program, slot = session.programs[len(index)]
        slot[:] = index
        program.run()
        for name, value in stats.items():
            self._params[name][:] = value
        plan = session.plans[len(index)]
        memory = self._memory(session, slot)
        return {name: memory.view(plan, block.values).copy() for name, block in plan.gradients.items()}

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Loss and hits over `index` (None: all samples), with running statistics.

        Raises  DataError like `fit`; there must be at least one sample.
        """
        self._check(samples)
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        _check_index(chosen, len(samples))
        self._loss[0], self._correct[0] = 0.0, 0
        for _ in self._run_chunks("evaluate", samples, chosen):
            pass
        return Evaluation(float(self._loss[0]), int(self._correct[0]), len(chosen))

    def predict(self, x: Array) -> Array:
        """Logits [N, classes] of inputs [N, *input_shape] of the learner's type, with running statistics."""
        return self._outputs("predict", x)

    def features(self, x: Array) -> Array:
        """Inputs [N, in_features] of the last Linear layer, with running statistics.

        Raises  GraphError if the model has no Linear layer.
        """
        return self._outputs("features", x)

    def clone(self) -> GraphLearner:
        """An independent learner with equal parameters; it shares no memory with this one."""
        twin = object.__new__(GraphLearner)
        twin.__dict__ |= self.__dict__
        twin._params = _flat_views(self._params, self._dtype)
        twin._loss, twin._correct = np.zeros(1), np.zeros(1, np.int64)
        twin._hyper, twin._total, twin._clip = np.zeros_like(self._hyper), np.zeros(1), np.zeros_like(self._clip)
        twin.release()
        return twin

    def release(self) -> None:
        """Give back everything but the parameters; the next pass builds it anew."""
        self._sessions = OrderedDict()
        self._arena = aligned_bytes(0)

    def memory(self) -> dict[str, int]:
        """Bytes held now: params, arena, states (velocities and the like), indices (id lists), scratch.

        scratch is the kernels' packing memory, shared by all learners of the process; 0 where the backend has none.
        """
        sessions = list(self._sessions.values())
        scratch = getattr(self._backend, "scratch_bytes", None)
        return {
            "params": sum(aligned(value.nbytes) for value in self._params.values()),
            "arena": self._arena.nbytes,
            "states": sum(value.nbytes for session in sessions for value in session.states.values()),
            "indices": sum(plan.index_bytes() for session in sessions for plan in session.plans.values()),
            "scratch": scratch() if scratch else 0,
        }

    def _check(self, samples: Samples) -> None:
        if samples.x.shape[1:] != self.graph.input_shape:
            raise DataError(f"samples of shape {samples.x.shape[1:]}; expected {self.graph.input_shape}")
        if samples.x.dtype not in (np.uint8, self._dtype):
            raise DataError(f"samples of type {samples.x.dtype}; expected uint8 or {self._dtype}")
        classes = self.graph.output_shape[0]
        if len(samples) and samples.y.max() >= classes:
            raise DataError(f"label {samples.y.max()}; expected labels below {classes}")

    def _session(
        self, mode: Mode, neurons: NeuronSet | None, delta: Delta, terms: Terms, samples: Samples
    ) -> _Session:
        """The session with these properties, from the kept ones if it is there."""
        chosen = None if neurons is None or neurons.is_full else neurons
        key = (mode, chosen and chosen.hash(), delta, terms, id(samples.x), id(samples.y), samples.scale, samples.shift)
        session = self._sessions.pop(key, None) or _Session(mode, chosen, delta, terms, samples)
        self._sessions[key] = session
        while len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        return session

    def _prepare(self, session: _Session, sizes: set[int]) -> None:
        """Plan and bind the passes of these batch sizes; a larger arena drops every program bound to the old one."""
        for size in sizes - session.plans.keys():
            session.plans[size] = self._lower(session, size)
        needed = max(session.plans[size].arena_bytes for size in sizes)
        if needed > self._arena.nbytes:
            for other in self._sessions.values():
                other.programs.clear()
            self._arena = aligned_bytes(0)  # frees the old arena before the new one is allocated
            self._arena = aligned_bytes(needed)
        for size in sizes - session.programs.keys():
            plan, index = session.plans[size], np.zeros(size, np.int32)
            for state in plan.states:
                if state not in session.states:
                    session.states[state] = np.zeros(state.shape, self._dtype)
            session.programs[size] = bind(self._backend, plan, self._memory(session, index)), index

    def _lower(self, session: _Session, batch: int) -> Plan:
        return lower(
            self.graph,
            self.spec,
            batch,
            session.neurons,
            mode=session.mode,
            delta=session.delta,
            terms=session.terms,
            float_bytes=self._dtype.itemsize,
        )

    def _memory(self, session: _Session, index: NDArray[np.int32]) -> Memory:
        samples = session.samples
        slots = {"x": samples.x, "y": samples.y, "scale": samples.scale, "shift": samples.shift, "index": index}
        slots |= {"loss": self._loss, "correct": self._correct, "hyper": self._hyper}
        slots |= {"total": self._total, "total_bits": self._total.view(np.float32), "clip": self._clip}
        return Memory(self._arena, self._dtype, self._params, session.states, slots)

    def _fill_states(self, session: _Session, centre: Mapping[str, Array], linear: Mapping[str, Array]) -> None:
        blocks = trained_blocks(self.spec, session.neurons)
        given = {"centre": centre, "linear": linear}
        for state, values in session.states.items():
            if state.kind == "velocity":
                values[:] = 0
                continue
            source = np.ascontiguousarray(given[state.kind][state.param], self._dtype)
            whole = (*source.shape[:2], 1)[:2] if source.ndim > 1 else (source.shape[0], 1)
            self._backend.take_axes(source.reshape(*whole, -1), *blocks[state.param], values)

    def _frozen_stats(self, trainable: NeuronSet | None) -> dict[str, tuple[Array, Array]]:
        """Running statistics of frozen channels: name -> channels and a copy of their values."""
        if trainable is None:
            return {}
        frozen = {}
        for name, (rows, _) in trainable.blocks(self.spec, kinds=("stat",)).items():
            if rows is not None:
                others = np.setdiff1d(np.arange(len(self._params[name])), rows)
                frozen[name] = others, self._params[name][others]
        return frozen

    def _outputs(self, mode: Mode, x: Array) -> Array:
        samples = Samples(x, np.zeros(len(x), np.int32))
        self._check(samples)
        index = np.arange(len(x), dtype=np.int32)
        _check_index(index, len(x))
        outputs = [output.copy() for output in self._run_chunks(mode, samples, index) if output is not None]
        self._sessions.popitem()  # this one's: do not keep x alive
        return np.concatenate(outputs).reshape(len(x), -1)

    def _run_chunks(self, mode: Mode, samples: Samples, index: NDArray[np.int32]) -> Iterator[Array | None]:
        """Run a pass over chunks of `index`; yields each chunk's output, which the next chunk overwrites."""
        session = self._session(mode, None, "exact", Terms(), samples)
        size = self._chunk()
        chunks = [index[start : start + size] for start in range(0, len(index), size)]
        self._prepare(session, {len(chunk) for chunk in chunks})
        for chunk in chunks:
            program, slot = session.programs[len(chunk)]
            slot[:] = chunk
            program.run()
            plan = session.plans[len(chunk)]
            yield None if plan.output is None else self._memory(session, slot).view(plan, plan.output)

    def _chunk(self) -> int:
        """Examples per evaluation pass: a function of the graph alone, so that results do not depend on history."""
        if self._evaluation_batch is None:
            size = EVALUATION_BATCH
            while size > 1 and lower(self.graph, self.spec, size, mode="evaluate").arena_bytes > EVALUATION_ARENA_BYTES:
                size //= 2
            self._evaluation_batch = size
        return self._evaluation_batch


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


def _check_index(index: NDArray[np.int32], rows: int) -> None:
    if index.dtype != np.int32 or index.ndim != 1 or not index.size:
        raise DataError(f"batch of {index.dtype} and shape {index.shape}; expected at least one int32 index")
    if index.min() < 0 or index.max() >= rows:
        raise DataError(f"batch with indices {index.min()} to {index.max()}; expected 0 to {rows - 1}")

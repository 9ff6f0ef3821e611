"""GraphLearner: the Learner over a Graph, on any kernel backend and without torch.

With the native backend a call to fit runs in C++: no Python and no allocation per step. Memory and programs are kept by
workspace.py, learners of other heads and smaller graphs by derived_learners.py; lowering/ decides what a pass consists
of.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import groupby

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgefl import kernels
from edgefl.errors import BackendError, SelectionError
from edgefl.kernels.memory import memory_of
from edgefl.learning.batches import Keyed, keyed, pieces
from edgefl.learning.learner import (
    SPARSE_BATCH,
    Array,
    Batches,
    Delta,
    Evaluation,
    ExecutedFlops,
    FitResult,
    FrozenStats,
    Gradient,
    Learner,
    Pull,
    Samples,
    Trainable,
)
from edgefl.learning.lowering.active_ids import Growth
from edgefl.learning.lowering.sparse_weight import sparse_weights
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running import running_statistics
from edgefl.learning.running.cached_prefix import Cache, StepConfiguration
from edgefl.learning.running.derived_learners import DerivedLearners
from edgefl.learning.running.dropout_stream import begin
from edgefl.learning.running.growth_request import check_counts, growth_of
from edgefl.learning.running.inference import Inference
from edgefl.learning.running.input_checks import check_index, check_samples, sizes_of
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.session import Session
from edgefl.learning.running.weight_arrays import Readable, Weights, WritableWeights
from edgefl.learning.running.workspace import Workspace
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.heads import features_of
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.gather import parameter, put, take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted
from edgefl.models.neurons.update import KINDS, Update, values

MOST_STEPS = 256  # in one call
PIECE_WORK = 1 << 28  # multiply-accumulates of the forward passes in one call, where they are not one step's


class GraphLearner:
    """A model that trains and predicts in place, in one arena that grows to the largest pass asked for.

    model        copied; the model's own arrays are not touched
    backend      "native", "numba" or "reference"; None: kernels.backend chooses
    dtype        float32, or float64 with the reference backend (then samples must be uint8 or float64)
    limit_bytes  what `memory` may come to where no other learner runs: a pass that would exceed it is refused with
                 MemoryLimitError before it allocates, and evaluation takes smaller chunks; None: no limit
    Raises       GraphError if the parameters do not fit the graph; BackendError for float64 on another backend;
                 MemoryLimitError if the parameters alone exceed the limit.
    """

    def __init__(
        self,
        model: Model,
        backend: str | None = None,
        dtype: DTypeLike = np.float32,
        limit_bytes: int | None = None,
    ) -> None:
        model.graph.check(model.params)
        self._backend, self._dtype = kernels.backend(backend), np.dtype(dtype)
        if self._dtype != np.float32 and not self._backend.__name__.endswith(".reference"):
            raise BackendError(f"dtype={self._dtype} with {self._backend.__name__}; expected float32, or reference")
        self.graph, self.spec = model.graph, ModelSpec.of(model.graph)
        self._workspace = Workspace(self.graph, self.spec, model.params, self._backend, self._dtype, limit_bytes)
        self._begin()

    def _begin(self) -> None:
        self._params = self._workspace.params
        self._restriction = Restriction(self.spec)
        self._batch: int | None = None  # of the steps that its sparse weights are laid out for
        self._home = memory_of(self._backend)
        self._weights = Weights(self._params, self._workspace.sparse, self._home)
        self._readable = Readable(self._weights)
        self._inference = Inference(self.graph, self.spec, self._workspace)
        self._relatives: DerivedLearners[GraphLearner] = DerivedLearners(self.graph, self.spec, self._params)
        results = sum(math.prod(shape) for shape in self.graph.shapes.values())
        self._work = sum(self.graph.macs().values()) + results  # of one example

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Whole parameters by torch's name (None: all): read-only views of one buffer, which later steps change.

        Raises  ValueError for a name that is none of its parameters.
        """
        if names is None:
            return self._readable
        return {name: parameter(self._readable, name) for name in names}

    def take(
        self,
        selection: NeuronSet | Mask | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
    ) -> Update:
        """A copy of the blocks under these neurons, or in this mask (None: everything); see gather.take."""
        return take(self._weights, self.spec, selection, kinds=kinds, names=names, ops=self._backend)

    def restrict(self, mask: Mask | None, batch: int = SPARSE_BATCH) -> None:
        """From now on only the coordinates of this mask exist (None: all of them): the others are 0.0, whatever is
        written or trained. Those that come back are 0.0 until they are written.

        batch   examples in the batches to come: from it, the shapes, the mask and the instruction set follows which
                weights are held and multiplied as values alone. Others run as dense ones; the arithmetic is the same
        Raises  SelectionError if the mask does not fit the model, or lists a running statistic.
        """
        self._keep_to(Restriction(self.spec, mask), batch)
        for relative in self._relatives.sharing():
            relative._keep_to(self._part_for(relative))

    def _part_for(self, relative: GraphLearner) -> Restriction:
        """What of the mask is of parameters that it shares."""
        shared = [name for name, value in relative._params.items() if value is self._params.get(name)]
        return Restriction(relative.spec, self._restriction.only(shared))

    def _keep_to(self, restriction: Restriction, batch: int | None = None) -> None:
        """batch  None: no weight is held as values alone, as where learners share them."""
        self._restriction, self._batch = restriction, batch if self._workspace.is_alone else None
        counts = restriction.counts if self._batch is not None else {}
        self._workspace.restrict(
            restriction, sparse_weights(self.graph, self.spec, counts, self._batch or 0, self._backend)
        )

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Sets an update's coordinates, or whole parameters, cast to the learner's type; the rest keeps its bits.

        Of whole parameters what the mask leaves out stays 0.0; an update's coordinates have to be in it.
        Raises  ValueError as gather.put does, or naming the parameter whose shape differs; SelectionError for an
                update's coordinates outside the mask. Nothing is written then.
        """
        if isinstance(new, Update):
            self._restriction.check(new)
            opened = WritableWeights(self._weights)
            put(opened, new, ops=self._backend)
            opened.close()
        else:
            self._write_whole(new)
        for name in new.blocks if isinstance(new, Update) else new:
            self._workspace.clear(name)

    def _write_whole(self, new: Mapping[str, Array]) -> None:
        for name, value in new.items():
            parameter(self._params, name)
            if value.shape != self.spec.params[name].shape:
                raise ValueError(f"{name!r} of shape {value.shape}; expected {self.spec.params[name].shape}")
        for name, value in new.items():
            self._weights.set(name, value)

    def fit(
        self,
        samples: Samples,
        batches: Batches,
        optimizer: Optimizer,
        trainable: Trainable = None,
        pull: Pull | None = None,
        linear: Mapping[str, Array] | None = None,
        delta: Delta = "exact",
        bn_frozen: FrozenStats = "track",
        cut: str = "",
    ) -> FitResult:
        """One step per batch, in order, on the blocks that `trainable` selects (None: all).

        samples    rows that the batches' int32 indices name
        batches    with the place in the stream of dropout, where the model has any: Minibatches or Listed
        trainable  neurons (not with a mask), or layers by name. Everything outside its blocks keeps its bits, except
                   running statistics of frozen channels, which follow the batches ("track") unless bn_frozen="freeze"
                   restores them
        pull       (mu, centre): adds mu/2 |w - centre|^2 to the loss; centre holds the model's parameters
        linear     adds the inner product of w with these parameters to the loss
        cut        a result after which alone is trained: see running/cached_prefix.py
        Velocities and moments start at zero in every call, and Adam's steps at 1. A non-finite loss does not stop the
        call: it is in the result.
        Raises     DataError if an index, a label or a shape does not fit; TrainingError without batches, or where there
                   is dropout without a key; SelectionError
                   if `trainable` are neurons of another model, or the learner is restricted to a mask; GraphError for a
                   cut that is none.
        """
        if cut:
            rest, terms = self.rest(cut), Terms.of(optimizer, pull is not None, linear is not None)
            cache = Cache(self.graph, self._workspace, self._inference, cut, self._backend)
            kept = cache.of(rest._workspace, samples, batches, StepConfiguration(trainable, delta, terms))
            return rest.fit(*kept, optimizer, trainable, pull, linear, delta, bn_frozen)
        check_samples(samples, self.graph, self._dtype)
        sizes = sizes_of(batches, len(samples))
        terms = Terms.of(optimizer, pull is not None, linear is not None)
        work = self._workspace
        session = work.session("train", samples, trainable, delta, terms)
        work.set_rates(optimizer, pull[0] if pull else 0.0)
        work.prepare(session, sizes)
        work.fill_states(session, pull[1] if pull else {}, linear or {})
        left_alone = running_statistics.frozen(self.spec, trainable) if bn_frozen == "freeze" else {}
        begin(self.graph, work.dropout, keyed(batches))
        work.loss[0] = 0.0
        examples, divisor, steps = 0, 0.0, dict.fromkeys(sizes, 0)
        with running_statistics.kept(self._params, left_alone, self._home):
            for piece in pieces(batches, self._steps_at_once(max(sizes))):
                for size, run in groupby(piece, key=len):
                    bound = session.programs[size]
                    rows = np.stack(list(run))
                    bound.program.run_batches(bound.index, rows)
                    steps[size] += len(rows)
                    divisor += samples.loss.divisor(samples.y, rows)
                examples += sum(map(len, piece))
        for size, count in steps.items():
            work.meter.trained(session.schedules[size], count)
        return FitResult(work.loss_sum(examples / divisor), examples, len(batches))

    def gradient(
        self,
        samples: Samples,
        index: NDArray[np.int32],
        trainable: Trainable = None,
        delta: Delta = "exact",
        chunk: int | None = None,
        key: int | None = None,
    ) -> Gradient:
        """Gradient of the mean loss over `index`: parameter -> its compact block [|rows|, |cols|, ...].

        chunk   examples per pass; the passes' gradients are summed in order in the learner's type, so the result
                depends on it in the last bits only. None: one pass. Batch statistics are those of a pass
        key     of the stream of dropout, 64 bits; what is dropped does not depend on `chunk`
        Of a masked parameter the block is [|ids|], the gradient at the coordinates that exist. Running statistics are
        left alone. Raises DataError, SelectionError and TrainingError like `fit`.
        """
        self._check(samples, index)
        begin(self.graph, self._workspace.dropout, None if key is None else Keyed(key))
        return self._gradient(self._workspace.session("gradient", samples, trainable, delta), index, chunk)

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Of each named parameter the `counts[name]` coordinates outside a mask with the largest |gradient| of the mean
        loss over `index`: positions in the flattened parameter, sorted. Of equal gradients the lower position is taken;
        NaN counts as infinite.

        The model is as it is, with batch statistics and without dropout; running statistics are left alone.
        Raises  SelectionError if the mask does not fit the model, a name is no learned parameter, or a count exceeds
                the coordinates outside; DataError like `fit`.
        """
        self._check(samples, index)
        outside = Mask.of(self.spec, outside.bits)
        check_counts(self.spec, outside, counts)
        grown = {name: growth_of(outside.bits[name], count) for name, count in counts.items() if count}
        return {name: np.zeros(0, np.uint32) for name in counts} | (self._grown(samples, index, grown) if grown else {})

    def _grown(
        self, samples: Samples, index: NDArray[np.int32], grown: Mapping[str, Growth]
    ) -> dict[str, NDArray[np.uint32]]:
        work, size = self._workspace, len(index)
        session = work.session("grow", samples, grown=grown)
        work.prepare(session, {size})
        with running_statistics.kept(self._params, running_statistics.everything(self.spec), self._home):
            session.programs[size].index[:] = index
            session.programs[size].program.run()
            work.meter.searched(session.schedules[size])
        found = session.schedules[size].found
        places = {name: work.view(session, size, tensor).astype(np.uint32) for name, tensor in found.items()}
        work.drop_latest()  # the next search is for other counts
        return places

    def _gradient(self, session: Session, index: NDArray[np.int32], chunk: int | None = None) -> Gradient:
        chunks = [index[start : start + (chunk or len(index))] for start in range(0, len(index), chunk or len(index))]
        self._workspace.prepare(session, {len(part) for part in chunks})
        self._workspace.loss[0] = 0.0
        with running_statistics.kept(self._params, running_statistics.everything(self.spec), self._home):
            divisor = session.samples.loss.divisor(session.samples.y, index)
            total = self._gradient_of(session, chunks[0], divisor)
            for part in chunks[1:]:
                self._workspace.dropout[2] += len(chunks[0])
                for name, value in self._gradient_of(session, part, divisor).items():
                    total[name] += value
        total.loss_sum = self._workspace.loss_sum(len(index) / divisor)
        return total

    def _gradient_of(self, session: Session, part: NDArray[np.int32], divisor: float) -> Gradient:
        """What one pass adds to the gradient of a mean loss that divides by this."""
        bound, share = session.programs[len(part)], session.samples.loss.divisor(session.samples.y, part) / divisor
        bound.index[:] = part
        bound.program.run()
        self._workspace.meter.trained(session.schedules[len(part)])
        blocks = session.schedules[len(part)].gradients
        views = {name: self._workspace.view(session, len(part), block.values) for name, block in blocks.items()}
        return Gradient((name, self._in_order(name, value) * share) for name, value in views.items())

    def _in_order(self, name: str, values: Array) -> Array:
        """What a schedule has of a parameter; of a masked one at its coordinates, in order."""
        if name not in self._restriction:
            return values.reshape(*values.shape[:2], *self.spec.params[name].shape[2:])
        compact = self._workspace.sparse.get(name)
        whole: Array = values if compact is None else compact.whole(values)
        bits = self._restriction.bits(name)
        return whole.reshape(bits.shape)[bits]

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Loss and right decisions over `index` (None: all samples), with running statistics.

        Raises  DataError like `fit`; there must be at least one sample.
        """
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._check(samples, chosen)
        loss, correct = self._workspace.loss, self._workspace.correct
        loss[0], correct[0] = 0.0, 0
        for _ in self._inference.run("evaluate", samples, chosen):
            pass
        share = len(chosen) / samples.loss.divisor(samples.y, chosen)
        decisions = samples.loss.decisions(self.graph.output_shape[0])
        return Evaluation(self._workspace.loss_sum(share), int(correct[0]), len(chosen), decisions)

    def predict(self, x: Array) -> Array:
        """Logits [N, classes] of inputs [N, *input_shape] of the learner's type, with running statistics."""
        samples = Samples(x, np.zeros(len(x), np.int32))
        everything = np.arange(len(x), dtype=np.int32)
        self._check(samples, everything)
        logits = self._inference.logits(samples, everything)
        self._workspace.drop_latest()  # do not keep x alive
        return logits

    def features(
        self, samples: Samples, index: NDArray[np.int32] | None = None, chunk: int | None = None, cut: str = ""
    ) -> Array:
        """Results [N, *shape of one] at a cut for `index` (None: all), with running statistics.

        chunk   examples per pass; None: as in evaluations
        cut     the result's name; none: the inputs [N, in_features] of the last Linear layer
        Raises  GraphError if there is no such result, or no Linear layer; DataError like `fit`.
        """
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._check(samples, chosen)
        return self._inference.features(samples, chosen, cut or features_of(self.graph), chunk)

    def with_head(self, classes: int) -> GraphLearner:
        """A learner of this body, whose parameters it shares, under a last Linear layer of its own with `classes`
        outputs: zeros when it is made, and as it was left for the last few numbers of classes asked for.

        Raises  GraphError unless the last node is a Linear layer.
        """
        self._share()
        return self._relatives.with_head(classes, self._relative)

    def head(self) -> GraphLearner:
        """A learner of the last Linear layer alone, whose parameters it shares. Its inputs are features.

        Raises  GraphError if the model has no Linear layer.
        """
        self._share()
        return self._relatives.head(self._relative)

    def rest(self, cut: str) -> GraphLearner:
        """A learner of all that follows a cut, whose parameters it shares. Its inputs are results at the cut, its
        neurons the whole model's. Asked again for the same cut it may be the same learner.

        Raises  GraphError for a cut that is none.
        """
        self._share()
        return self._relatives.rest(cut, self._relative)

    def _share(self) -> None:
        """Hold every weight whole, as learners beside this one need them."""
        if self._workspace.sparse:
            self._keep_to(self._restriction)

    def sub(self, neurons: NeuronSet) -> GraphLearner:
        """A learner of the smaller graph that has only these neurons, with a copy of their blocks; within the same
        limit. Those of the last few graphs are kept, so that rounds with as many neurons reuse schedules and programs.

        Raises  GraphError if a GroupNorm or grouped convolution would break, SelectionError for other models' neurons,
                or where the model is restricted to a mask.
        """
        if self._restriction:
            names = ", ".join(self._restriction)
            raise SelectionError(f"sub of a model with masks of {names}; expected whole parameters: restrict(None)")
        return self._relatives.sub(self.graph.sub(neurons), values(self.take(neurons)), self._relative)

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """The parameters of a learner that `sub(neurons)` gave, written to their places; the rest keeps its bits.

        Raises  ValueError or SelectionError if it is a learner of other neurons; nothing is written then.
        """
        self.write(lifted(smaller.read(), self.spec, neurons))

    def _relative(self, graph: Graph, spec: ModelSpec, params: Params) -> GraphLearner:
        """A learner of another graph on the same backend and within the same limit, sharing what it gets of ours."""
        other = object.__new__(GraphLearner)
        other._backend, other._dtype, other.graph, other.spec = self._backend, self._dtype, graph, spec
        ours = self._workspace
        other._workspace = Workspace(graph, spec, params, self._backend, self._dtype, ours.limit, relative=ours)
        other._begin()
        other._keep_to(self._part_for(other))
        return other

    def clone(self) -> GraphLearner:
        """An independent learner with equal parameters and mask; it shares no memory with this one."""
        twin = object.__new__(GraphLearner)
        twin.__dict__ |= self.__dict__
        limit = self._workspace.limit
        params = {name: self._weights.read(name) for name in self._weights}
        twin._workspace = Workspace(self.graph, self.spec, params, self._backend, self._dtype, limit)
        twin._begin()
        twin._keep_to(self._restriction, self._batch)
        return twin

    def release(self) -> None:
        """Give back all memory but the parameters'; the next pass builds it anew."""
        self._workspace.release()

    def memory(self) -> dict[str, int]:
        """Bytes held now, with learners of other heads: params, arena, states (velocities and the like), indices (id
        lists), scratch; features, results at a cut, where a fit has kept any; samples, where a device has a copy.

        scratch is the kernels' packing memory, shared by all learners of the process; 0 where the backend has none.
        """
        return self._workspace.memory()

    def work(self) -> ExecutedFlops:
        """What it, learners of other heads and of smaller graphs have executed since it was made."""
        return self._workspace.meter.work

    def _check(self, samples: Samples, index: NDArray[np.int32]) -> None:
        check_samples(samples, self.graph, self._dtype)
        check_index(index, len(samples))

    def _steps_at_once(self, batch: int) -> int:
        """Steps that are run in one call, which nothing can interrupt: some milliseconds of work, or one step."""
        return max(1, min(MOST_STEPS, PIECE_WORK // (self._work * batch)))

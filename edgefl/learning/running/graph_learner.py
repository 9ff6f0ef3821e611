"""GraphLearner: the Learner over a Graph, on any kernel backend and without torch.

The learner checks what it is asked and passes it on. Memory and programs are kept by workspace.py. Steps are taken by
training_steps.py, gradients by gradient_passes.py, evaluations and predictions by inference.py. Learners of other heads
and smaller graphs are kept by derived_learners.py. lowering/ decides what a pass consists of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgefl import kernels
from edgefl.errors import BackendError, SelectionError
from edgefl.learning.fit_options import Delta, FitOptions, Trainable, options_of
from edgefl.learning.learner import (
    SPARSE_BATCH,
    Array,
    Batches,
    Evaluation,
    ExecutedFlops,
    FitResult,
    Gradient,
    Learner,
    Samples,
)
from edgefl.learning.lowering.sparse_weight import sparse_weights
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running.batch_minimum import trainable_batches
from edgefl.learning.running.cached_prefix import Cache
from edgefl.learning.running.derived_learners import DerivedLearners
from edgefl.learning.running.gradient_passes import GradientPasses
from edgefl.learning.running.growth_search import GrowthSearch
from edgefl.learning.running.inference import Inference
from edgefl.learning.running.input_checks import check_index, check_samples
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.parameter_access import ParameterAccess
from edgefl.learning.running.training_steps import TrainingSteps
from edgefl.learning.running.workspace import Workspace
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.heads import features_of
from edgefl.models.graph.operations import Kind
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted
from edgefl.models.neurons.update import EVERY_KIND, KINDS, Update, values


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
        ops, floats = kernels.backend(backend), np.dtype(dtype)
        if floats != np.float32 and not ops.__name__.endswith(".reference"):
            raise BackendError(f"dtype={floats} with {ops.__name__}; expected float32, or reference")
        spec = ModelSpec.of(model.graph)
        self._begin(ops, model.graph, spec, Workspace(model.graph, spec, model.params, ops, floats, limit_bytes))

    def _begin(self, backend: ModuleType, graph: Graph, spec: ModelSpec, workspace: Workspace) -> GraphLearner:
        self._backend, self.graph, self.spec, self._workspace = backend, graph, spec, workspace
        self._batch: int | None = None  # of the steps that its sparse weights are laid out for
        self._parameters = ParameterAccess(spec, workspace.store, backend)
        self._training = TrainingSteps(graph, spec, workspace)
        self._gradients = GradientPasses(graph, spec, workspace)
        self._growth = GrowthSearch(spec, workspace)
        self._inference = Inference(graph, spec, workspace)
        self._relatives: DerivedLearners[GraphLearner] = DerivedLearners(graph, spec, workspace.store.params)
        return self

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Whole parameters by torch's name (None: all): read-only views of one buffer, which later steps change.

        Raises  ValueError for a name that is none of its parameters.
        """
        return self._parameters.read(names)

    def take(
        self,
        selection: NeuronSet | Mask | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
    ) -> Update:
        """A copy of the blocks under these neurons, or in this mask (None: of everything); see gather.take."""
        return self._parameters.take(selection, kinds, names)

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
        """The mask of the parameters that a relative shares with this learner."""
        own = self._workspace.store.params
        shared = [name for name, value in relative._workspace.store.params.items() if value is own.get(name)]
        return Restriction(relative.spec, self._workspace.store.restriction.only(shared))

    def _keep_to(self, restriction: Restriction, batch: int | None = None) -> None:
        """Restricts the parameters. Without a batch size no weight is held as values alone, nor where learners share
        parameters.
        """
        self._batch = batch if self._workspace.account.is_alone else None
        counts = restriction.counts if self._batch is not None else {}
        sparse = sparse_weights(self.graph, self.spec, counts, self._batch or 0, self._backend)
        self._workspace.restrict(restriction, sparse)

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Sets an update's coordinates, or whole parameters, cast to the learner's type; the rest keeps its bits.

        Of whole parameters what the mask leaves out stays 0.0; an update's coordinates have to be in it.
        Raises  ValueError as gather.put does, or naming the parameter whose shape differs; SelectionError for an
                update's coordinates outside the mask. Nothing is written then.
        """
        self._parameters.write(new)

    def fit(
        self,
        samples: Samples,
        batches: Batches,
        optimizer: Optimizer,
        options: FitOptions = FitOptions(),
        *former: Any,
        **named: Any,
    ) -> FitResult:
        """Takes one step per batch, in order, on the parameters that the options select.

        samples  The data set. The int32 indices in the batches name its rows.
        batches  Minibatches or Listed carry the key of dropout, which a model with dropout needs.
        former   `fit` still takes the fields of FitOptions one by one, by position or by keyword (`named`), with a
                 DeprecationWarning.
        Velocities and moments start at zero in every call, and Adam counts its steps from 1. A loss that is not finite
        does not stop the call; the result contains it.
        Raises   DataError if an index, a label or a shape does not fit; TrainingError without batches, or if the model
                 has dropout and the batches have no key; SelectionError if `trainable` selects neurons of another
                 model, or neurons while the learner keeps to a mask; GraphError if the graph has no cut `cut`.
        """
        options = options_of(options, former, named)
        if options.cut:
            rest = self.rest(options.cut)
            batches = rest.joined(batches)
            cache = Cache(self.graph, self._workspace, self._inference, options.cut, self._backend)
            near = cache.of(rest._workspace, samples, batches, optimizer, options)
            return rest.fit(*near, optimizer, replace(options, cut=""))
        return self._training.fit(samples, self.joined(batches), optimizer, options)

    def joined(self, batches: Batches) -> Batches:
        """The batches that `fit` takes its steps on: where the model normalises over single values, a batch of one
        sample joins the batch before it. Raises TrainingError if a batch of one sample is left there.
        """
        return trainable_batches(batches, single_value_norm(self.graph))

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
        return self._gradients.gradient(samples, index, FitOptions(trainable, delta=delta), chunk, key)

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
        return self._growth.strongest(samples, index, outside, counts)

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Loss and right decisions over `index` (None: all samples), with running statistics.

        Raises  DataError like `fit`; there must be at least one sample.
        """
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._check(samples, chosen)
        return self._inference.evaluation(samples, chosen)

    def predict(self, x: Array) -> Array:
        """Logits [N, classes] of inputs [N, *input_shape] of the learner's type, with running statistics."""
        samples = Samples(x, np.zeros(len(x), np.int32))
        everything = np.arange(len(x), dtype=np.int32)
        self._check(samples, everything)
        return self._inference.logits(samples, everything)

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
        """Holds every weight whole, as learners that share parameters need them."""
        if self._workspace.store.sparse:
            self._keep_to(self._workspace.store.restriction)

    def sub(self, neurons: NeuronSet) -> GraphLearner:
        """A learner of the smaller graph that has only these neurons, with a copy of their blocks; within the same
        limit. Those of the last few graphs are kept, so that rounds with as many neurons reuse schedules and programs.

        Raises  GraphError if a GroupNorm or grouped convolution would break, SelectionError for other models' neurons,
                or where the model is restricted to a mask.
        """
        if restriction := self._workspace.store.restriction:
            names = ", ".join(restriction)
            raise SelectionError(f"sub of a model with masks of {names}; expected whole parameters: restrict(None)")
        active = values(self.take(neurons, kinds=EVERY_KIND))
        return self._relatives.sub(self.graph.sub(neurons), active, self._relative)

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """The parameters of a learner that `sub(neurons)` gave, written to their places; the rest keeps its bits.

        Raises  ValueError or SelectionError if it is a learner of other neurons; nothing is written then.
        """
        self.write(lifted(smaller.read(), self.spec, neurons))

    def _relative(self, graph: Graph, spec: ModelSpec, params: Params) -> GraphLearner:
        """A learner of another graph on the same backend and within the same limit, sharing what it gets of ours."""
        ours = self._workspace
        workspace = Workspace(graph, spec, params, self._backend, ours.store.dtype, relative=ours)
        other = object.__new__(GraphLearner)._begin(self._backend, graph, spec, workspace)
        other._keep_to(self._part_for(other))
        return other

    def clone(self) -> GraphLearner:
        """An independent learner with equal parameters and mask; it shares no memory with this one."""
        store, limit = self._workspace.store, self._workspace.account.limit.limit_bytes
        params = self._parameters.arrays()
        workspace = Workspace(self.graph, self.spec, params, self._backend, store.dtype, limit)
        twin = object.__new__(GraphLearner)._begin(self._backend, self.graph, self.spec, workspace)
        twin._keep_to(store.restriction, self._batch)
        return twin

    def release(self) -> None:
        """Gives back all memory but that of the parameters. The next pass builds it anew."""
        self._workspace.account.release()

    def memory(self) -> dict[str, int]:
        """Bytes held now, with learners of other heads: params, arena, states (velocities and the like), indices (id
        lists), scratch; features, results at a cut, where a fit has kept any; samples, where a device has a copy.

        scratch is the kernels' packing memory, shared by all learners of the process; 0 where the backend has none.
        """
        return self._workspace.account.memory()

    def work(self) -> ExecutedFlops:
        """The operations that the learner and its learners of other heads and of smaller graphs have executed since it
        was made.
        """
        return self._workspace.meter.work

    def _check(self, samples: Samples, index: NDArray[np.int32]) -> None:
        check_samples(samples, self.graph, self._workspace.store.dtype)
        check_index(index, len(samples))

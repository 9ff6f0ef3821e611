"""GraphLearner: the Learner over a Graph, on any kernel backend and without torch.

The learner checks each request and passes it on. Memory and programs are in workspace.py. Steps are in
training_steps.py, gradients in gradient_passes.py, evaluations and predictions in inference.py. Learners of other heads
and of smaller graphs are in derived_learners.py. The folder lowering/ decides what a pass consists of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgefl import kernels
from edgefl.learning.fit_options import Delta, FitOptions, options_of
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
from edgefl.learning.running.backend_check import check_backend
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
from edgefl.learning.targets import blank_samples
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.heads import features_of
from edgefl.models.graph.operations import Kind
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.models.neurons.update import EVERY_KIND, KINDS, Update, values


class GraphLearner:
    """A model that trains and predicts in place, in one arena that grows to the largest pass asked for.

    model        model whose parameters are copied. Its own arrays are not changed
    backend      "native", "numba" or "reference". None: kernels.backend chooses
    dtype        float32, or float64 with the reference backend (then samples must be uint8 or float64)
    limit_bytes  bound of `memory` where no other learner runs. A step beyond it computes parts of its forward pass once
                 more with equal bits, or raises MemoryLimitError. Evaluation takes smaller chunks. None: no limit
    shares_frozen  whether frozen parameters are used in the model's arrays, which nobody may change then
    int8_activations  whether evaluations and predictions round the inputs of layers with int8 weights to int8
    Raises       GraphError if the parameters do not fit the graph, or for int8_activations without int8 weights.
                 BackendError for float64 on another backend, and for int8_activations on CUDA.
                 MemoryLimitError if the parameters alone exceed the limit
    """

    def __init__(
        self,
        model: Model,
        backend: str | None = None,
        dtype: DTypeLike = np.float32,
        limit_bytes: int | None = None,
        shares_frozen: bool = False,
        int8_activations: bool = False,
    ) -> None:
        model.graph.check(model.params)
        ops, floats = kernels.backend(backend), np.dtype(dtype)
        check_backend(ops, floats, model.graph, int8_activations)
        spec, of = ModelSpec.of(model.graph), (model.params, ops, floats, limit_bytes)
        options = {"in_place": model.graph.frozen if shares_frozen else (), "int8_activations": int8_activations}
        self._begin(ops, model.graph, spec, Workspace(model.graph, spec, *of, **options))  # type: ignore[arg-type]

    def _begin(self, backend: ModuleType, graph: Graph, spec: ModelSpec, workspace: Workspace) -> GraphLearner:
        self._backend, self.graph, self.spec, self._workspace = backend, graph, spec, workspace
        self._batch: int | None = None  # batch size for which the sparse weights are laid out
        self._parameters, self._norm = ParameterAccess(spec, workspace.store, backend), single_value_norm(graph)
        self._training = TrainingSteps(graph, spec, workspace)
        self._gradients = GradientPasses(graph, spec, workspace)
        self._growth = GrowthSearch(spec, workspace)
        self._inference = Inference(graph, spec, workspace)
        self._relatives: DerivedLearners[GraphLearner] = DerivedLearners(graph, spec, workspace.store.params)
        return self

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Return whole parameters by torch's name (None: all), as read-only views of what later steps change.

        Raises  ValueError for a name that is not one of the parameters
        """
        return self._parameters.read(names)

    def take(
        self,
        selection: NeuronSet | Mask | TrainableParameters | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
        since: Mapping[str, Array] | None = None,
    ) -> Update:
        """Return a copy of the blocks under these neurons, or in this mask (None: of everything). See gather.take."""
        return self._parameters.take(selection, kinds, names, since)

    def restrict(self, mask: Mask | None, batch: int = SPARSE_BATCH) -> None:
        """Keep only the coordinates of this mask from now on (None: all). The others are 0.0, whatever is written or
        trained.

        Coordinates that come back are 0.0 until they are written.

        batch   examples in the batches to come. The batch, the shapes, the mask and the instruction set decide which
                weights are held and multiplied as values alone. The other weights run dense, with the same arithmetic
        Raises  SelectionError if the mask does not fit the model, or lists a parameter that is not learned
        """
        self._keep_to(Restriction(self.spec, mask), batch)
        for relative in self._relatives.sharing():
            relative._keep_to(self._part_for(relative))

    def _part_for(self, relative: GraphLearner) -> Restriction:
        """Return the mask of the parameters that a relative shares with this learner."""
        own = self._workspace.store.params
        shared = [name for name, value in relative._workspace.store.params.items() if value is own.get(name)]
        return Restriction(relative.spec, self._workspace.store.restriction.only(shared))

    def _keep_to(self, restriction: Restriction, batch: int | None = None) -> None:
        """Restrict the parameters. No weight is held as values alone without a batch size, or where learners share
        parameters.
        """
        self._batch = batch if self._workspace.account.is_alone else None
        counts = restriction.counts if self._batch is not None else {}
        sparse = sparse_weights(self.graph, self.spec, counts, self._batch or 0, self._backend)
        self._workspace.restrict(restriction, sparse)

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Set an update's coordinates, or whole parameters, cast to the learner's type. Every other coordinate keeps
        its bits.

        Coordinates of whole parameters outside the mask stay 0.0. The coordinates of an update have to be in the mask.

        Raises  ValueError like gather.put, or naming the parameter whose shape differs. SelectionError for an update's
                coordinates outside the mask. Nothing is written then
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
        """Take one step per batch, in order, on the parameters that the options select.

        samples  The data set. The int32 indices in the batches name its rows.
        batches  Minibatches or Listed carry the key of dropout, which a model with dropout needs.
        former   `fit` still takes the fields of FitOptions one by one, by position or by keyword (`named`), with a
                 DeprecationWarning
        Velocities and moments start at zero in every call, and Adam counts its steps from 1. A loss that is not finite
        does not stop the call, and is in the result.

        Raises  DataError if an index, a label or a shape does not fit. TrainingError without batches, or if the model
                has dropout and the batches have no key. SelectionError if `trainable` does not fit the model, or
                selects a part of a parameter to whose mask the learner keeps. GraphError if the graph has no cut `cut`.
        """
        options = options_of(options, former, named)
        trainable = TrainableParameters.of(self.spec, options.trainable)
        if options.cut:
            rest = self.rest(options.cut)
            options = replace(options, trainable=trainable.within(rest.spec))
            batches = rest.joined(batches)
            cache = Cache(self.graph, self._workspace, self._inference, options.cut, self._backend)
            near = cache.of(rest._workspace, samples, batches, optimizer, options)
            return rest.fit(*near, optimizer, replace(options, cut=""))
        return self._training.fit(samples, self.joined(batches), optimizer, options)

    def joined(self, batches: Batches) -> Batches:
        """Return the batches that `fit` takes its steps on. Where the model normalises over single values, a batch of
        one sample joins the batch before it. Raises TrainingError if a batch of one sample is left.
        """
        return trainable_batches(batches, self._norm)

    def gradient(
        self,
        samples: Samples,
        index: NDArray[np.int32],
        trainable: Trainable = None,
        delta: Delta = "exact",
        chunk: int | None = None,
        key: int | None = None,
    ) -> Gradient:
        """Return the gradient of the mean loss over `index`: parameter -> its compact block [|rows|, |cols|, ...].

        chunk  examples in a pass, or None for one pass. The gradients of passes are summed in order in the learner's
               type, so the result depends on `chunk` in the last bits only. Batch statistics are those of a pass
        key    64-bit key of the dropout stream. The dropped values do not depend on `chunk`

        The block of a masked parameter is [|ids|], the gradient at the coordinates that exist. Running statistics do
        not change. Raises DataError, SelectionError and TrainingError like `fit`.
        """
        self._checked(samples, index)
        return self._gradients.gradient(samples, index, FitOptions(trainable, delta=delta), chunk, key)

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Return for each named parameter the `counts[name]` coordinates outside a mask with the largest |gradient|.

        The gradient is that of the mean loss over `index`, with batch statistics and without dropout. The model and its
        running statistics do not change. Coordinates are positions in the flattened parameter, sorted. Among equal
        gradients the lower position is taken. NaN counts as infinite.

        Raises  SelectionError if the mask does not fit the model, a name is not a learned parameter, or a count exceeds
                the coordinates outside. DataError like `fit`
        """
        self._checked(samples, index)
        return self._growth.strongest(samples, index, outside, counts)

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Return the loss and the right decisions over `index` (None: all samples), with running statistics.

        Raises  DataError like `fit`, also where there are no samples
        """
        return self._inference.evaluation(samples, self._checked(samples, index))

    def evaluate_each(self, samples: Samples, indices: Sequence[NDArray[np.int32]]) -> list[Evaluation]:
        """Return what `evaluate` returns for each index. Small indices of one length take little time each."""
        return self._inference.evaluations(samples, [self._checked(samples, index) for index in indices])

    def predict(self, x: Array) -> Array:
        """Return the logits [N, *output_shape] of inputs [N, *input_shape], with running statistics."""
        samples = blank_samples(x, self.graph)
        return self._inference.logits(samples, self._checked(samples, None))

    def features(
        self, samples: Samples, index: NDArray[np.int32] | None = None, chunk: int | None = None, cut: str = ""
    ) -> Array:
        """Return the results [N, *shape of one result] at a cut for `index` (None: all), with running statistics.

        chunk   examples in a pass. None: as many as in evaluations
        cut     name of the result. Empty: the inputs [N, in_features] of the last Linear layer
        Raises  GraphError if there is no such result, or no Linear layer. DataError like `fit`
        """
        return self._inference.features(samples, self._checked(samples, index), cut or features_of(self.graph), chunk)

    def with_head(self, classes: int) -> GraphLearner:
        """Return a learner of this body, whose parameters it shares, under a last Linear layer of its own with
        `classes` outputs. The head is zero when it is made. For the last few numbers of classes asked for, it is as it
        was left.
        Raises GraphError unless the last node is a Linear layer.
        """
        self._share()
        return self._relatives.with_head(classes, self._relative)

    def head(self) -> GraphLearner:
        """Return a learner of the last Linear layer alone, whose parameters it shares. Its inputs are features.
        Raises GraphError if the model has no Linear layer.
        """
        self._share()
        return self._relatives.head(partial(self._relative, in_its_arena=True))

    def rest(self, cut: str) -> GraphLearner:
        """Return a learner of all that follows a cut, whose parameters it shares. Its inputs are results at the cut,
        and its neurons are the whole model's. A later call for the cut may return the same learner.
        Raises GraphError if `cut` is not a cut of the graph.
        """
        self._share()
        return self._relatives.rest(cut, partial(self._relative, in_its_arena=True))

    def _share(self) -> None:
        """Hold every weight whole, as learners that share parameters need them."""
        if self._workspace.store.sparse:
            self._keep_to(self._workspace.store.restriction)

    def sub(self, neurons: NeuronSet) -> GraphLearner:
        """Return a learner of the smaller graph that has only these neurons, with a copy of their blocks and the same
        limit. The learners of the last few graphs are kept, so that rounds with as many neurons reuse schedules and
        programs.
        Raises GraphError if a GroupNorm or grouped convolution would break. Raises SelectionError for neurons of
        another model, or where the model is restricted to a mask.
        """
        self._workspace.store.restriction.check_whole("sub")
        active = values(self.take(neurons, kinds=EVERY_KIND))
        return self._relatives.sub(self.graph.sub(neurons), active, self._relative)

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """Write the parameters of a learner that `sub(neurons)` returned to their positions. Other coordinates keep
        their bits.
        Raises ValueError or SelectionError if it is a learner of other neurons. Nothing is written then.
        """
        self.write(lifted(smaller.read(), self.spec, neurons))

    def _relative(self, graph: Graph, spec: ModelSpec, params: Params, in_its_arena: bool = False) -> GraphLearner:
        """Return a learner of another graph on the same backend and within the same limit, which shares the arrays it
        is given, and with `in_its_arena` the arena.
        """
        ours = self._workspace
        relation = {"relative": ours, "in_its_arena": in_its_arena}
        workspace = Workspace(graph, spec, params, self._backend, ours.store.dtype, **relation)  # type: ignore[arg-type]
        other = object.__new__(GraphLearner)._begin(self._backend, graph, spec, workspace)
        other._keep_to(self._part_for(other))
        return other

    def clone(self) -> GraphLearner:
        """Return an independent learner with equal parameters and mask. It shares a model's frozen arrays."""
        store, limit = self._workspace.store, self._workspace.account.limit.limit_bytes
        own = self.graph, self.spec, self._parameters.arrays(), self._backend, store.dtype, limit
        workspace = Workspace(*own, in_place=store.in_place, int8_activations=store.int8_activations)
        twin = object.__new__(GraphLearner)._begin(self._backend, self.graph, self.spec, workspace)
        twin._keep_to(store.restriction, self._batch)
        return twin

    def release(self) -> None:
        """Give back all memory but that of the parameters. The next pass allocates it anew."""
        self._workspace.account.release()

    def memory(self) -> dict[str, int]:
        """Return the bytes held now, with learners of other heads: params, arena, states (velocities and the like),
        indices (id lists) and scratch.

        The part features is the results at a cut that a fit has kept. The part samples is copies on a device. The part
        scratch is the packing memory of the process, which all learners share, or 0 for a backend without such memory.
        """
        return self._workspace.account.memory()

    def work(self) -> ExecutedFlops:
        """Return the operations that the learner and its learners of other heads and smaller graphs have executed."""
        return self._workspace.meter.work

    def _checked(self, samples: Samples, index: NDArray[np.int32] | None) -> NDArray[np.int32]:
        """Return the index, or that of all samples, after a check that both fit the model."""
        check_samples(samples, self.graph, self._workspace.store.dtype)
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        check_index(chosen, len(samples))
        return chosen

"""The class TorchLearner: a Learner over a torch module, which is a graph's own form or a user's module.

Torch computes, so the results equal GraphLearner's up to rounding. masked_parameters.py writes parameters,
module_training.py takes steps, module_gradients.py computes gradients, and module_inference.py evaluates and predicts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import nn

from edgefl.errors import GraphError
from edgefl.learning.batches import Listed, keyed, occurring
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
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running.batch_minimum import trainable_batches
from edgefl.learning.running.derived_learners import HEADS_KEPT, SUBS_KEPT, kept
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.targets import blank_samples
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.cuts import after, until
from edgefl.models.graph.operations import Kind
from edgefl.models.graph.single_value_norm import single_value_norm
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.models.neurons.update import EVERY_KIND, KINDS, Update, values
from edgefl.torch import module_parts
from edgefl.torch.example_inputs import inputs_of
from edgefl.torch.graph_module import GraphModule
from edgefl.torch.masked_parameters import MaskedParameters
from edgefl.torch.model_factory import examples
from edgefl.torch.module_gradients import ModuleGradients
from edgefl.torch.module_inference import ModuleInference
from edgefl.torch.module_training import ModuleTraining
from edgefl.torch.operation_counts import TorchFlopCounter
from edgefl.torch.output_check import check_output
from edgefl.torch.parameter_arrays import ModuleParameters
from edgefl.torch.passes import Passes
from edgefl.torch.single_value_layer import single_value_layer

DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


class TorchLearner:
    """A torch module that trains and predicts as a Learner. The given module is copied and not changed.

    model    graph and parameters, computed by `module`, or without `module` by the torch form of the graph. The module
             has the graph's parameter names and returns logits
    module   torch module that computes the model
    neurons  specification of a module without a graph: the group that each axis of its parameters belongs to
    dtype    float32, or float64, which takes samples in uint8 or float64
    device   device on which torch computes
    Raises   GraphError if model and module do not fit each other, ValueError unless there is either a model, or a
             module with its neurons
    """

    def __init__(
        self,
        model: Model | None = None,
        module: nn.Module | None = None,
        *,
        neurons: ModelSpec | None = None,
        dtype: DTypeLike = np.float32,
        device: str | torch.device = "cpu",
    ) -> None:
        if (model is None) == (neurons is None) or (module is None and model is None):
            raise ValueError("neither or both of model= and neurons=; expected a model, or a module with its neurons")
        graph = None if model is None else model.graph
        spec = neurons if graph is None else ModelSpec.of(graph)
        assert spec is not None
        if graph is not None and graph.auxiliary:
            found = ", ".join(each.result for each in graph.auxiliary)
            raise GraphError(f"TorchLearner of a graph with the auxiliary outputs {found}; expected a GraphLearner")
        own = deepcopy(module) if module is not None else GraphModule(graph)  # type: ignore[arg-type]
        self._dtype, self._device = np.dtype(dtype), torch.device(device)
        if model is not None:
            model.graph.check(model.params)
            held = ModuleParameters(own, spec)
            for name, value in model.params.items():
                held.set(name, value)
            if module is not None:
                check_output(model, own, inputs_of(own, examples(own, model.graph.input_shape)), nn.Identity())
        self._begin(graph, spec, own.to(self._device, DTYPES[self._dtype]), TorchFlopCounter())

    def _begin(
        self, graph: Graph | None, spec: ModelSpec, module: nn.Module, executed: TorchFlopCounter
    ) -> TorchLearner:
        self.graph, self.spec, self._module = graph, spec, module
        held = ModuleParameters(module, spec)
        passes = Passes(module, graph, spec, held, executed)
        self._parameters, self._passes = MaskedParameters(held, spec, self._device), passes
        self._training = ModuleTraining(spec, self._parameters, passes)
        self._gradients = ModuleGradients(module, spec, self._parameters, passes)
        self._inference = ModuleInference(module, spec, passes)
        self._heads: OrderedDict[int, TorchLearner] = OrderedDict()
        self._subs: OrderedDict[Graph, TorchLearner] = OrderedDict()
        self._head: TorchLearner | None = None
        return self

    def _relative(
        self, graph: Graph | None, spec: ModelSpec, module: nn.Module, executed: TorchFlopCounter | None = None
    ) -> TorchLearner:
        """Return a learner of another module with the type and device of this learner.

        Without a counter of its own it counts its operations together with this learner's operations.
        """
        other = object.__new__(TorchLearner)
        other._dtype, other._device = self._dtype, self._device
        counter = self._passes.executed if executed is None else executed
        return other._begin(graph, spec, module.to(self._device, DTYPES[self._dtype]), counter)

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Return whole parameters by torch's names, read-only.

        The arrays are views if torch has the values in this process's memory.
        names   names of the parameters. None: all parameters
        Raises  ValueError for a name that is not the name of a parameter
        """
        return self._parameters.held.read(names)

    def take(
        self,
        selection: NeuronSet | Mask | TrainableParameters | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
        since: Mapping[str, Array] | None = None,
    ) -> Update:
        """Copy the blocks under these neurons, or the values in this mask, or everything for None. See gather.take."""
        return take(self._parameters.held, self.spec, selection, kinds=kinds, names=names, since=since)

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Set the coordinates of an update, or whole parameters. All other coordinates keep their bits.

        Raises the errors of GraphLearner.write.
        """
        self._parameters.write(new)

    def restrict(self, mask: Mask | None, batch: int = SPARSE_BATCH) -> None:
        """Restrict the model to the coordinates of this mask from now on, or end the restriction if `mask` is None.

        `batch` changes nothing here.
        Raises  SelectionError if the mask does not fit the model, or lists a running statistic
        """
        self._parameters.keep_to(Restriction(self.spec, mask))
        for relative in (*self._heads.values(), *([self._head] if self._head else [])):
            self._share_mask(relative)

    def _share_mask(self, relative: TorchLearner) -> TorchLearner:
        """Keep the parameters that a relative shares with this learner to this learner's mask. Return the relative."""
        relative._parameters.keep_to(self._parameters.shared_with(relative._parameters))
        return relative

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

        The arguments and errors are as in GraphLearner. The option delta="cut" needs a graph in its own torch form, and
        raises SelectionError for a user's module. The option `cut` needs a graph, which is then computed in its torch
        form, and raises GraphError for a module without a graph.
        """
        options = options_of(options, former, named)
        trainable = TrainableParameters.of(self.spec, options.trainable)
        if options.cut:
            options = replace(options, trainable=trainable.within(self._part(after, options.cut).spec))
            batches = self._part(after, options.cut).joined(batches)
            rows = np.unique(np.concatenate(occurring(batches)[0]))
            near = Samples(self.features(samples, rows, cut=options.cut), samples.y[rows], loss=samples.loss)
            there, position = [np.searchsorted(rows, batch).astype(np.int32) for batch in batches], keyed(batches)
            within = Listed(there, position) if position else there
            return self._part(after, options.cut).fit(near, within, optimizer, replace(options, cut=""))
        if self.graph is None and 1 in occurring(batches)[1]:
            batches = trainable_batches(batches, single_value_layer(self._module, self._passes, samples))
        return self._training.fit(samples, self.joined(batches), optimizer, options)

    def joined(self, batches: Batches) -> Batches:
        """Return the batches on which `fit` takes its steps (see GraphLearner.joined).

        For a module without a graph, only `fit` can find them, from the samples.
        """
        return batches if self.graph is None else trainable_batches(batches, single_value_norm(self.graph))

    def gradient(
        self,
        samples: Samples,
        index: NDArray[np.int32],
        trainable: Trainable = None,
        delta: Delta = "exact",
        chunk: int | None = None,
        key: int | None = None,
    ) -> Gradient:
        """Compute the gradient of the mean loss over the samples `index`.

        It has for each parameter its compact block [|rows|, |cols|, ...], or [|ids|] under a mask. The arguments and
        errors are as in GraphLearner.
        """
        return self._gradients.gradient(samples, index, FitOptions(trainable, delta=delta), chunk, key)

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Find the `counts[name]` coordinates outside a mask with the largest |gradient|, for each named parameter.

        It works like GraphLearner.strongest.
        """
        return self._gradients.strongest(samples, index, outside, counts)

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Compute the loss and the number of right decisions over the samples `index`, with running statistics.

        If `index` is None, it takes all samples.
        """
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._passes.check(samples, chosen)
        return self._inference.evaluation(samples, chosen)

    def predict(self, x: Array) -> Array:
        """Compute the logits [N, *output_shape] of inputs [N, *input_shape], with running statistics."""
        samples = blank_samples(x, self.graph)
        index = np.arange(len(x), dtype=np.int32)
        self._passes.check(samples, index)
        return self._inference.logits(samples, index)

    def features(
        self, samples: Samples, index: NDArray[np.int32] | None = None, chunk: int | None = None, cut: str = ""
    ) -> Array:
        """Compute the results [N, *shape of one result] at a cut for the samples `index`, in passes of `chunk` samples.

        Without the name of a cut the results are the inputs [N, in_features] of the last Linear layer. The index None
        takes all samples.
        Raises  GraphError if the graph has no such result or no Linear layer, or for a cut of a module without a graph,
                DataError like `fit`
        """
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._passes.check(samples, chosen)
        cut = cut or module_parts.cut_with_places(self.graph)
        if cut:
            return self._part(until, cut)._inference.results(samples, chosen, chunk)
        return self._inference.features(samples, chosen, chunk)

    def rest(self, cut: str) -> TorchLearner:
        """Return a learner of all that follows a cut, on the same parameters. Its inputs are results at the cut."""
        return self._part(after, cut)

    def _part(self, side: Callable[[Graph, str], Graph], cut: str) -> TorchLearner:
        """Return a learner of one side of a cut, which shares the parameters of this learner."""
        if self.graph is None:
            raise GraphError(f"cut of {type(self._module).__name__}, which is not a graph; expected a model")
        part = module_parts.part(self._parameters.held, self.spec, side(self.graph, cut))
        return self._share_mask(self._relative(*part))

    def with_head(self, classes: int) -> TorchLearner:
        """Return a learner that shares this learner's body and has its own last Linear layer with `classes` outputs.

        The layer is zero at first. It keeps its values for the last few numbers of classes that were asked for.
        Raises  GraphError unless the last node is a Linear layer
        """
        learner = self._heads.pop(classes, None)
        if learner is None:
            described = module_parts.spec_under_head(self.graph, self.spec, classes)
            module = module_parts.under_head(self._module, self._parameters.held, self.spec, classes)
            learner = self._share_mask(self._relative(*described, module))
        return kept(self._heads, classes, learner, HEADS_KEPT)

    def head(self) -> TorchLearner:
        """Return a learner of the last Linear layer alone, which shares its parameters with this learner.

        Its inputs are features.
        Raises  GraphError if the model has no Linear layer
        """
        if self._head is None:
            alone = module_parts.head_alone(self._module, self._parameters.held, self.graph, self.spec)
            self._head = self._share_mask(self._relative(*alone))
        return self._head

    def sub(self, neurons: NeuronSet) -> TorchLearner:
        """Return a learner of the smaller graph that has only these neurons, with a copy of their blocks.

        Torch computes it in the torch form of the graph.

        Raises  GraphError for a module without a graph, or where a GroupNorm or grouped convolution would break,
                SelectionError for the neurons of another model, or if this learner is restricted to a mask
        """
        self._parameters.check_whole("sub", "whole parameters: restrict(None)")
        if self.graph is None:
            raise GraphError(f"sub-model of {type(self._module).__name__}, which is not a graph; expected a model")
        graph = self.graph.sub(neurons)
        learner = self._subs.pop(graph, None) or self._relative(graph, ModelSpec.of(graph), GraphModule(graph))
        learner.write(values(self.take(neurons, kinds=EVERY_KIND)))
        return kept(self._subs, graph, learner, SUBS_KEPT)

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """Write the parameters of a learner that `sub(neurons)` returned to their positions in this learner.

        All other coordinates keep their bits.
        """
        self.write(lifted(smaller.read(), self.spec, neurons))

    def clone(self) -> TorchLearner:
        """Return an independent learner with equal parameters and mask, which counts its own operations from 0."""
        twin = self._relative(self.graph, self.spec, deepcopy(self._module), TorchFlopCounter())
        twin._parameters.keep_to(self._parameters.restriction)
        return twin

    def memory(self) -> dict[str, int]:
        """Return the bytes that this learner and its learners of other heads hold: params, and indices (of masks).

        The memory of torch's allocator during a pass is not known, so that arena, states and scratch are 0.
        """
        family = (self, *self._heads.values(), *([self._head] if self._head else []))
        tensors = {id(tensor): tensor.nbytes for each in family for tensor in each._parameters.held.tensors.values()}
        indices = sum(each._parameters.restriction.nbytes for each in family)
        return {"params": sum(tensors.values()), "arena": 0, "states": 0, "indices": indices, "scratch": 0}

    def work(self) -> ExecutedFlops:
        """Return the operations that this learner and its learners of other heads and smaller graphs have executed.

        The count begins when the learner is made. Whole layers are counted, as torch computes them.
        """
        return self._passes.executed.work

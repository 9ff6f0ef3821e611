"""TorchLearner: the Learner over a torch module, which torch computes: a graph's own form, or a module of the user's.

The arithmetic is torch's, so results are GraphLearner's up to rounding. What is trained of a weight is a choice of
coordinates: torch computes whole gradients, and steps are taken on those alone (optimizer_steps.py).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn

from edgefl.errors import GraphError, SelectionError
from edgefl.learning.batches import Keyed, Listed, keyed, occurring
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
from edgefl.learning.lowering.active_ids import trained_blocks
from edgefl.learning.lowering.schedule import Index
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running import running_statistics
from edgefl.learning.running.derived_learners import HEADS_KEPT, SUBS_KEPT, kept
from edgefl.learning.running.growth_request import check_counts
from edgefl.learning.running.inference import EVALUATION_BATCH
from edgefl.learning.running.input_checks import sizes_of
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.cuts import after, until
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.gather import parameter, put, take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted
from edgefl.models.neurons.top_k import largest, magnitudes
from edgefl.models.neurons.update import KINDS, Update, values
from edgefl.torch import module_parts
from edgefl.torch.graph_module import GraphModule
from edgefl.torch.model_factory import examples
from edgefl.torch.objective import mean_loss, right
from edgefl.torch.operation_counts import TorchFlopCounter
from edgefl.torch.optimizer_steps import Stepper, TrainedCoordinates
from edgefl.torch.parameter_arrays import ModuleParameters, buffers_kept
from edgefl.torch.passes import Passes
from edgefl.torch.trace import check_output

DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


class TorchLearner:
    """A torch module that trains and predicts as a Learner. The module given is copied, and not touched.

    model    graph and parameters; computed by `module`, or by the graph's torch form. A module has the graph's names
             of parameters and gives its logits
    neurons  in place of a model, of a module that is no graph: which group each axis of its parameters belongs to
    dtype    float32, or float64 (then samples must be uint8 or float64)
    device   where torch computes
    Raises   GraphError if model and module do not fit each other; ValueError unless there is either a model, or a
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
        own = deepcopy(module) if module is not None else GraphModule(graph)  # type: ignore[arg-type]
        self._dtype, self._device = np.dtype(dtype), torch.device(device)
        if model is not None:
            model.graph.check(model.params)
            held = ModuleParameters(own, spec)
            for name, value in model.params.items():
                held.set(name, value)
            if module is not None:
                check_output(model, own, examples(own, model.graph.input_shape), nn.Identity())
        self._begin(graph, spec, own.to(self._device, DTYPES[self._dtype]), TorchFlopCounter())

    def _begin(
        self, graph: Graph | None, spec: ModelSpec, module: nn.Module, executed: TorchFlopCounter
    ) -> TorchLearner:
        self.graph, self.spec, self._module, self._executed = graph, spec, module, executed
        self._held = ModuleParameters(module, spec)
        self._passes = Passes(module, graph, spec, self._held, executed)
        self._restriction = Restriction(spec)
        self._heads: OrderedDict[int, TorchLearner] = OrderedDict()
        self._subs: OrderedDict[Graph, TorchLearner] = OrderedDict()
        self._head: TorchLearner | None = None
        return self

    def _relative(self, graph: Graph | None, spec: ModelSpec, module: nn.Module) -> TorchLearner:
        """A learner of another module of the same type and device."""
        other = object.__new__(TorchLearner)
        other._dtype, other._device = self._dtype, self._device
        return other._begin(graph, spec, module.to(self._device, DTYPES[self._dtype]), self._executed)

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Whole parameters by torch's name (None: all), read-only; views where torch has them in this process's memory.

        Raises  ValueError for a name that is none of its parameters.
        """
        return self._held.read(names)

    def take(
        self,
        selection: NeuronSet | Mask | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
    ) -> Update:
        """A copy of the blocks under these neurons, or in this mask (None: everything); see gather.take."""
        return take(self._held, self.spec, selection, kinds=kinds, names=names)

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Sets an update's coordinates, or whole parameters; the rest keeps its bits. Raises as GraphLearner.write."""
        names = list(new.blocks if isinstance(new, Update) else new)
        if isinstance(new, Update):
            self._restriction.check(new)
            arrays = {name: parameter(self._held, name) for name in names}
            put(arrays, new)
            self._held.store(arrays)
        else:
            for name, value in new.items():
                parameter(self._held, name)
                if value.shape != self.spec.params[name].shape:
                    raise ValueError(f"{name!r} of shape {value.shape}; expected {self.spec.params[name].shape}")
            for name, value in new.items():
                self._held.set(name, value)
        self._clear(names)

    def _clear(self, names: Collection[str]) -> None:
        """What the mask leaves out of these is 0.0."""
        arrays = {name: self._held[name] for name in names if name in self._restriction}
        for name, array in arrays.items():
            self._restriction.clear(name, array)
        self._held.store(arrays)

    def restrict(self, mask: Mask | None, batch: int = SPARSE_BATCH) -> None:
        """From now on only the coordinates of this mask exist (None: all of them); `batch` changes nothing here.

        Raises  SelectionError if the mask does not fit the model, or lists a running statistic.
        """
        self._keep_to(Restriction(self.spec, mask))
        for relative in (*self._heads.values(), *([self._head] if self._head else [])):
            relative._keep_to(self._part_for(relative))

    def _part_for(self, relative: TorchLearner) -> Restriction:
        """What of the mask is of parameters that it shares."""
        shared = [name for name, each in relative._held.tensors.items() if each is self._held.tensors.get(name)]
        return Restriction(relative.spec, self._restriction.only(shared))

    def _keep_to(self, restriction: Restriction) -> None:
        self._restriction = restriction
        self._clear(list(restriction))

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
        """One step per batch, in order, on the blocks that `trainable` selects; arguments and errors as GraphLearner's.

        delta="cut" is for graphs in their own torch form alone: SelectionError for a module of the user's. A cut is for
        graphs, and computed in their torch form: GraphError for a module that is none.
        """
        if cut:
            rows = np.unique(np.concatenate(occurring(batches)[0]))
            near = Samples(self.features(samples, rows, cut=cut), samples.y[rows], loss=samples.loss)
            there, position = [np.searchsorted(rows, batch).astype(np.int32) for batch in batches], keyed(batches)
            within = Listed(there, position) if position else there
            return self._part(after, cut).fit(near, within, optimizer, trainable, pull, linear, delta, bn_frozen)
        self._passes.check(samples)
        sizes_of(batches, len(samples))
        positions = self._positions(trainable)
        wholes = {name: self._held.whole(name) for name in positions}
        stepper = Stepper(wholes, positions, optimizer, pull, linear)
        left_alone = running_statistics.frozen(self.spec, trainable) if bn_frozen == "freeze" else {}
        total, divisor, examples = torch.zeros((), dtype=torch.float64, device=self._device), 0.0, 0
        with (
            self._passes.training(keyed(batches), trainable, delta, optimizer.saved),
            self._statistics_kept(left_alone),
        ):
            for rows in batches:
                loss, found = self._passes.gradients(samples, rows, positions)
                stepper.step(found)
                self._passes.dropping.count_step()
                share = samples.loss.divisor(samples.y, rows)
                total, divisor, examples = total + loss * share, divisor + share, examples + len(rows)
        return FitResult(total.item() * examples / divisor, examples, len(batches))

    def gradient(
        self,
        samples: Samples,
        index: NDArray[np.int32],
        trainable: Trainable = None,
        delta: Delta = "exact",
        chunk: int | None = None,
        key: int | None = None,
    ) -> Gradient:
        """Gradient of the mean loss over `index`: parameter -> its compact block [|rows|, |cols|, ...], or [|ids|]
        under a mask; arguments and errors as GraphLearner's.
        """
        self._passes.check(samples, index)
        positions, divisor = self._positions(trainable), samples.loss.divisor(samples.y, index)
        position, total, loss_sum = None if key is None else Keyed(key), dict[str, Tensor](), 0.0
        with self._passes.training(position, trainable, delta), buffers_kept(self._module):
            for part in _parts(index, chunk):
                loss, found = self._passes.gradients(samples, part, positions)
                share = samples.loss.divisor(samples.y, part) / divisor
                for name, value in found.items():
                    block = positions[name].take(value) * share
                    total[name] = total[name] + block if name in total else block
                loss_sum += loss.item() * share * len(index)
                self._passes.dropping.count_examples(len(part))
        gradient = Gradient({name: value.cpu().numpy() for name, value in total.items()})
        gradient.loss_sum = loss_sum
        return gradient

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Of each named parameter the `counts[name]` coordinates outside a mask with the largest |gradient|, as
        GraphLearner finds them.
        """
        self._passes.check(samples, index)
        outside = Mask.of(self.spec, outside.bits)
        check_counts(self.spec, outside, counts)
        sought = {name: TrainedCoordinates() for name, count in counts.items() if count}
        positions = {name: np.zeros(0, np.uint32) for name in counts}
        if not sought:
            return positions
        with buffers_kept(self._module):
            self._module.train()
            _, found = self._passes.gradients(samples, index, sought, search=True)
        for name, value in found.items():
            candidates = np.flatnonzero(~outside.bits[name])
            chosen = largest(magnitudes(value.cpu().numpy().reshape(-1)[candidates]), counts[name])
            positions[name] = candidates[chosen].astype(np.uint32)
        return positions

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Loss and right decisions over `index` (None: all samples), with running statistics."""
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._passes.check(samples, chosen)
        total, correct, outputs = 0.0, 0, 0
        with self._passes.predicting():
            for rows in _parts(chosen, EVALUATION_BATCH):
                logits, y = self._module(self._passes.inputs(samples, rows)), self._passes.targets(samples, rows)
                total += mean_loss(samples.loss, logits, y).item() * samples.loss.divisor(samples.y, rows)
                correct, outputs = correct + int(right(samples.loss, logits, y)), logits.shape[1]
        share = len(chosen) / samples.loss.divisor(samples.y, chosen)
        return Evaluation(total * share, correct, len(chosen), samples.loss.decisions(outputs))

    def predict(self, x: Array) -> Array:
        """Logits [N, classes] of inputs [N, *input_shape], with running statistics."""
        samples = Samples(x, np.zeros(len(x), np.int32))
        index = np.arange(len(x), dtype=np.int32)
        self._passes.check(samples, index)
        with self._passes.predicting():
            found = [self._module(self._passes.inputs(samples, rows)) for rows in _parts(index, EVALUATION_BATCH)]
        logits: Array = torch.cat(found).cpu().numpy()
        return logits

    def features(
        self, samples: Samples, index: NDArray[np.int32] | None = None, chunk: int | None = None, cut: str = ""
    ) -> Array:
        """Results [N, *shape of one] at a cut for `index` (None: all), in passes of `chunk`; without a name the inputs
        [N, in_features] of the last Linear layer.

        Raises  GraphError if there is no such result or no Linear layer, or for a cut of a module that is no graph;
                DataError like `fit`.
        """
        chosen = np.arange(len(samples), dtype=np.int32) if index is None else index
        self._passes.check(samples, chosen)
        if cut:
            results: Array = torch.cat(list(self._part(until, cut)._results(samples, chosen, chunk))).cpu().numpy()
            return results
        found: list[Tensor] = []
        last = module_parts.last_linear(self._module, self.spec)
        hook = last.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0].detach()))
        try:
            deque(self._results(samples, chosen, chunk), 0)
        finally:
            hook.remove()
        features: Array = torch.cat(found).reshape(len(chosen), -1).cpu().numpy()
        return features

    def _results(self, samples: Samples, index: NDArray[np.int32], chunk: int | None) -> Iterator[Tensor]:
        """Of the module, in passes of `chunk`."""
        with self._passes.predicting():
            for rows in _parts(index, chunk or EVALUATION_BATCH):
                kind = self.spec.fingerprint, "features", len(rows)
                yield self._executed.counted(kind, partial(self._module, self._passes.inputs(samples, rows)))

    def _part(self, side: Callable[[Graph, str], Graph], cut: str) -> TorchLearner:
        """A learner of one side of a cut, on the same parameters."""
        if self.graph is None:
            raise GraphError(f"cut of {type(self._module).__name__}, which is no graph; expected a model")
        learner = self._relative(*module_parts.part(self._held, self.spec, side(self.graph, cut)))
        learner._keep_to(self._part_for(learner))
        return learner

    def with_head(self, classes: int) -> TorchLearner:
        """A learner of this body, whose parameters it shares, under a last Linear layer of its own with `classes`
        outputs: zeros when it is made, and as it was left for the last few numbers of classes asked for.

        Raises  GraphError unless the last node is a Linear layer.
        """
        learner = self._heads.pop(classes, None)
        if learner is None:
            described = module_parts.spec_under_head(self.graph, self.spec, classes)
            learner = self._relative(*described, module_parts.under_head(self._module, self._held, self.spec, classes))
            learner._keep_to(self._part_for(learner))
        return kept(self._heads, classes, learner, HEADS_KEPT)

    def head(self) -> TorchLearner:
        """A learner of the last Linear layer alone, whose parameters it shares. Its inputs are features.

        Raises  GraphError if the model has no Linear layer.
        """
        if self._head is None:
            self._head = self._relative(*module_parts.head_alone(self._module, self._held, self.graph, self.spec))
            self._head._keep_to(self._part_for(self._head))
        return self._head

    def sub(self, neurons: NeuronSet) -> TorchLearner:
        """A learner of the smaller graph that has only these neurons, in its torch form, with a copy of their blocks.

        Raises  GraphError for a module that is no graph, or where a GroupNorm or grouped convolution would break;
                SelectionError for other models' neurons, or where the model is restricted to a mask.
        """
        if self._restriction:
            names = ", ".join(self._restriction)
            raise SelectionError(f"sub of a model with masks of {names}; expected whole parameters: restrict(None)")
        if self.graph is None:
            raise GraphError(f"sub of {type(self._module).__name__}, which is no graph; expected a model")
        graph = self.graph.sub(neurons)
        learner = self._subs.pop(graph, None) or self._relative(graph, ModelSpec.of(graph), GraphModule(graph))
        learner.write(values(self.take(neurons)))
        return kept(self._subs, graph, learner, SUBS_KEPT)

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """The parameters of a learner that `sub(neurons)` gave, written to their places; the rest keeps its bits."""
        self.write(lifted(smaller.read(), self.spec, neurons))

    def clone(self) -> TorchLearner:
        """An independent learner with equal parameters and mask."""
        twin = self._relative(self.graph, self.spec, deepcopy(self._module))
        twin._executed = TorchFlopCounter()
        twin._keep_to(self._restriction)
        return twin

    def memory(self) -> dict[str, int]:
        """Bytes held by it and by learners of other heads: params, and indices (masks). What torch's allocator keeps
        for passes is not known: arena, states and scratch are 0.
        """
        family = (self, *self._heads.values(), *([self._head] if self._head else []))
        tensors = {id(tensor): tensor.nbytes for each in family for tensor in each._held.tensors.values()}
        indices = sum(each._restriction.nbytes for each in family)
        return {"params": sum(tensors.values()), "arena": 0, "states": 0, "indices": indices, "scratch": 0}

    def work(self) -> ExecutedFlops:
        """What it, learners of other heads and of smaller graphs have executed since it was made: of whole layers, as
        torch computes them.
        """
        return self._executed.work

    def _positions(self, trainable: Trainable) -> dict[str, TrainedCoordinates]:
        """Trained parameters, each with its coordinates."""
        if self._restriction and isinstance(trainable, NeuronSet):
            names = ", ".join(self._restriction)
            raise SelectionError(f"neurons of a model with masks of {names}; expected names of layers, or None")
        ids = self._restriction.only(list(self._restriction)).ids
        blocks = trained_blocks(self.spec, trainable)
        return {name: TrainedCoordinates.of(axes, ids.get(name), self._device) for name, axes in blocks.items()}

    @contextmanager
    def _statistics_kept(self, channels: Mapping[str, Index]) -> Iterator[None]:
        """These channels of running statistics are afterwards as they were before."""
        before = {name: self._held[name].copy() for name in channels}
        yield
        for name, ids in channels.items():
            now = self._held[name].copy()
            chosen = slice(None) if ids is None else ids
            now[chosen] = before[name][chosen]
            self._held.set(name, now)


def _parts(index: NDArray[np.int32], size: int | None) -> Iterator[NDArray[np.int32]]:
    step = size or len(index)
    return (index[start : start + step] for start in range(0, len(index), step))

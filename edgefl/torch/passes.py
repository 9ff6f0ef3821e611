"""Passes of a torch module over samples, with the module's inputs, objective and mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl.errors import DataError
from edgefl.learning.batches import Keyed
from edgefl.learning.fit_options import Delta
from edgefl.learning.learner import Samples
from edgefl.learning.lowering.active_ids import trained_blocks
from edgefl.learning.optimizers import Saved
from edgefl.learning.running.input_checks import check_index, check_samples
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import Trainable
from edgefl.torch.dropout import Dropping
from edgefl.torch.frozen_parameters import keep_statistics
from edgefl.torch.gradient_cut import cut
from edgefl.torch.objective import mean_loss
from edgefl.torch.operation_counts import TorchFlopCounter
from edgefl.torch.parameter_arrays import ModuleParameters

Rows = NDArray[np.int32]


class Passes:
    """The passes of a module whose parameters have the specification's names.

    graph          graph that the module computes, or None if it is not known
    executed       counter of the executed operations
    dtype, device  type and device of the module's parameters
    """

    def __init__(
        self,
        module: nn.Module,
        graph: Graph | None,
        spec: ModelSpec,
        held: ModuleParameters,
        executed: TorchFlopCounter,
    ) -> None:
        self._module, self._graph, self._spec, self._held, self.executed = module, graph, spec, held, executed
        self.dropping = Dropping(module, graph)
        first = next(tensor for tensor in held.tensors.values() if tensor.is_floating_point())
        self.dtype, self.device = first.dtype, first.device
        self._floats = np.dtype(str(first.dtype).removeprefix("torch."))
        self._reads_ids = any(type(part) is nn.Embedding for part in module.modules())

    def check(self, samples: Samples, index: Rows | None = None) -> None:
        """Raise DataError for samples that do not fit, as far as this is known without running the module."""
        if self._graph is not None:
            check_samples(samples, self._graph, self._floats)
        elif samples.x.dtype not in (np.uint8, self._floats):
            raise DataError(f"samples of type {samples.x.dtype}; expected uint8 or {self._floats}")
        if index is not None:
            check_index(index, len(samples))

    def inputs(self, samples: Samples, rows: Rows) -> Tensor:
        """Return the inputs that the module reads for these samples."""
        x = torch.from_numpy(samples.x[rows]).to(self.device, self.dtype)
        if (samples.scale, samples.shift) != (1, 0):
            x = x * samples.scale + samples.shift
        if self._graph is not None:
            x = x.reshape(len(rows), *self._graph.input_shape)
        return x.long() if self._reads_ids else x

    def targets(self, samples: Samples, rows: Rows) -> Tensor:
        """Return the labels of these samples as int64, or their values."""
        y = torch.from_numpy(samples.y[rows]).to(self.device)
        return y.long() if samples.loss.has_labels else y

    def gradients(
        self, samples: Samples, rows: Rows, names: Collection[str], search: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss of a batch, and its gradients with respect to the whole parameters `names`."""
        x, y = self.inputs(samples, rows), self.targets(samples, rows)
        sought = [self._held.tensors[name] for name in names]
        for parameter in self._module.parameters():
            parameter.requires_grad_(False)
        for tensor in sought:
            tensor.requires_grad_()

        def run() -> tuple[Tensor, tuple[Tensor | None, ...]]:
            loss = mean_loss(samples.loss, self._module(x), y)
            return loss.detach(), torch.autograd.grad(loss, sought, allow_unused=True) if sought else ()

        kind = self._spec.fingerprint, self._heading(), len(rows), tuple(names)
        loss, found = self.executed.counted(kind, run, search)
        shapes = self._held.shapes
        return loss, {
            name: (torch.zeros_like(tensor) if value is None else value).reshape(shapes[name])
            for name, tensor, value in zip(names, sought, found, strict=True)
        }

    def _heading(self) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the head, which the fingerprint of a module without a graph does not tell."""
        return tuple(self._held.shapes[name] for name in self._spec.head)

    @contextmanager
    def training(
        self, position: Keyed | None, trainable: Trainable, delta: Delta, saved: Saved = "fp32"
    ) -> Iterator[None]:
        """Put the module into training mode for the context, with dropout from this position of its stream.

        delta  "cut" sets gradients to zero at frozen neurons
        saved  "fp16" keeps values for the backward pass as float16
        """
        with ExitStack() as stack:
            self.dropping.begin(position)
            stack.callback(self.dropping.end)
            if delta == "cut":
                stack.enter_context(cut(self._module, trained_blocks(self._spec, trainable)))
            stack.enter_context(_narrowed(self._held) if saved == "fp16" else nullcontext())
            self.train()
            yield

    def train(self) -> None:
        """Set training mode, except for the BatchNorms that keep their running statistics."""
        self._module.train()
        keep_statistics(self._module, self._spec.frozen)

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Put the module into evaluation mode for the context, in which torch computes no gradients."""
        self._module.eval()
        with torch.no_grad():
            yield


def chunks(index: Rows, size: int | None) -> Iterator[Rows]:
    """Return consecutive parts of `index` with `size` rows each, or one part for None. The last may be shorter."""
    step = size or len(index)
    return (index[start : start + step] for start in range(0, len(index), step))


def _narrowed(held: ModuleParameters) -> Any:
    """Store the values that autograd saves for the backward pass in float16, except the parameters."""
    own = {tensor.untyped_storage().data_ptr() for tensor in held.tensors.values()}

    def pack(tensor: Tensor) -> Callable[[], Tensor]:
        if not tensor.is_floating_point() or tensor.untyped_storage().data_ptr() in own:
            return lambda: tensor
        narrow, kind = tensor.half(), tensor.dtype
        return lambda: narrow.to(kind)

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda wide: wide())

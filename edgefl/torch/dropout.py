"""Dropout by edgefl's random stream inside a torch module, which drops the values that the kernels would drop.

The generator of torch belongs to the whole process, so its dropout depends on other draws.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl import kernels
from edgefl.errors import GraphError, TrainingError
from edgefl.learning.batches import Keyed
from edgefl.learning.lowering.dropout import threshold
from edgefl.learning.running.dropout_stream import as_state
from edgefl.models.graph import Graph
from edgefl.torch.channels_last import ExampleDropout
from edgefl.torch.training_modules import Noise

OF_ATTENTION = ".dropout"  # the end of the name of the dropout in an attention of to_torch
KINDS: dict[type[nn.Module], int] = {  # the first axis along which a word decides for all values, if any
    nn.Dropout: 0,
    nn.Dropout1d: 2,
    nn.Dropout2d: 2,
    nn.Dropout3d: 2,
    ExampleDropout: 1,
}


class StreamDropout(nn.Module):
    """A module that drops values of [batch, channels, ...] in training, once the learner has set `state`.

    number  number of the node in the graph, or of the module among the modules that drop
    whole   first axis along which all values are dropped together: 2 for planes, 1 for examples, 0 for single values
    state   int64 [3] = key, step, first sample. With None, nothing is dropped
    """

    def __init__(self, p: float, number: int, whole: int) -> None:
        super().__init__()
        self.p, self.number, self.whole = p, number, whole
        self.state: NDArray[np.int64] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.state is None or not self.p:
            return x
        kept = np.ones((len(x), 1, x[0].numel()) if self.whole == 1 else tuple(x.shape), np.float32)
        kernels.backend().dropout(kept, self.state, self.number, threshold(self.p), 1.0, bool(self.whole), kept, None)
        return x * torch.from_numpy(kept.reshape(x.shape)).to(x) * (1 / (1 - self.p))


class Dropping:
    """All dropout of a module. It replaces each nn.Dropout in the module by a StreamDropout.

    Raises  GraphError where the graph drops values and the module has no nn.Dropout for it.
    """

    def __init__(self, module: nn.Module, graph: Graph | None) -> None:
        names = [] if graph is None else [node.name for node in graph.nodes]
        found = [(name, part) for name, part in module.named_modules() if type(part) in KINDS]
        for number, (name, part) in enumerate(found):
            node = name.removesuffix(OF_ATTENTION)
            position = names.index(node) if node in names else number
            own = StreamDropout(float(part.p), position, KINDS[type(part)])
            module.set_submodule(name, own)
        random = StreamDropout | Noise
        self._parts = {name: part for name, part in module.named_modules() if isinstance(part, random)}
        for name, part in self._parts.items():
            if isinstance(part, Noise):
                part.number = names.index(name) if name in names else part.number
        dropping = [] if graph is None else [node.name for node in graph.nodes if node.op.drops]
        known = {name.removesuffix(OF_ATTENTION) for name in self._parts}
        if unknown := [name for name in dropping if name not in known]:
            raise GraphError(
                f"dropout {unknown[0]!r} is not a module of {type(module).__name__}; expected an nn.Dropout, "
                "or the module that to_torch makes of the graph"
            )

    def begin(self, position: Keyed | None) -> None:
        """Begin a training pass. Raises TrainingError without a key if a layer drops values."""
        active = {name: part for name, part in self._parts.items() if isinstance(part, Noise) or part.p}
        if active and position is None:
            names = ", ".join(active)
            raise TrainingError(f"training with dropout ({names}) and no key; expected batches.Listed, or key=")
        for part in active.values():
            part.state = np.zeros(3, np.int64)
            part.state[:] = as_state(position) if position else 0

    def count_step(self) -> None:
        self._move(1, 1)

    def count_examples(self, count: int) -> None:
        """Move on by `count` samples within a step."""
        self._move(2, count)

    def end(self) -> None:
        for part in self._parts.values():
            part.state = None

    def _move(self, which: int, by: int) -> None:
        for part in self._parts.values():
            if part.state is not None:
                part.state[which] += by

"""Passes of a learner that train nothing, over chunks of the samples, and the results that they return."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.learner import Array, Evaluation, Samples
from edgefl.learning.lowering.lower import Mode, lower
from edgefl.learning.running.workspace import Workspace
from edgefl.learning.scores import evaluated, share_of, with_mean_iou
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec

EVALUATION_BATCH = 256
EVALUATION_ARENA_BYTES = 4 << 20


class Inference:
    """Passes over the model of this graph, in the memory of a workspace."""

    def __init__(self, graph: Graph, spec: ModelSpec, workspace: Workspace) -> None:
        self._graph, self._spec, self._workspace = graph, spec, workspace
        self._batch: int | None = None
        self._has_places = len(graph.output_shape) > 1  # the score of places needs passes of its own

    def evaluation(self, samples: Samples, index: NDArray[np.int32]) -> Evaluation:
        """Return the loss and the right decisions over the samples of `index`."""
        self._clear()
        for _ in self.run("evaluate", samples, index):
            pass
        return self._found(samples, index)

    def evaluations(self, samples: Samples, indices: Sequence[NDArray[np.int32]]) -> list[Evaluation]:
        """Return what `evaluation` returns for each index.

        Indices of one length that fit into one pass share what is prepared for the pass.
        """
        if self._has_places:
            return [self.evaluation(samples, index) for index in indices]
        found: dict[int, Evaluation] = {}
        length = list(map(len, indices)).__getitem__
        for size, positions in groupby(sorted(range(len(indices)), key=length), length):
            alike = {at: indices[at] for at in positions}
            found |= self._of_one_size(samples, alike, size)
        return [found[at] for at in range(len(indices))]

    def _of_one_size(
        self, samples: Samples, indices: Mapping[int, NDArray[np.int32]], size: int
    ) -> dict[int, Evaluation]:
        """Return the evaluation of each index of `size` samples, by key."""
        if size > self._chunk():
            return {at: self.evaluation(samples, index) for at, index in indices.items()}
        session = self._workspace.sessions.open("evaluate", samples)
        self._workspace.prepare(session, {size})
        bound, found = session.programs[size], {}
        self._workspace.scalars.dropout[:] = 0
        for at, index in indices.items():
            self._clear()
            bound.index[:] = index
            bound.program.run()
            found[at] = self._found(samples, index)
        return found

    def _clear(self) -> None:
        self._workspace.scalars.clear_losses()
        self._workspace.scalars.correct[0] = 0

    def _found(self, samples: Samples, index: NDArray[np.int32]) -> Evaluation:
        """Return the evaluation of `index` that the passes since `_clear` have summed."""
        scalars = self._workspace.scalars
        loss_sum = scalars.loss_sum(share_of(samples.loss, samples.y, index))
        output = self._graph.output_shape
        found = evaluated(samples, index, output, loss_sum, int(scalars.correct[0]))
        return with_mean_iou(found, samples, index, output, lambda: self._outputs(samples, index))

    def _outputs(self, samples: Samples, index: NDArray[np.int32]) -> Iterator[Array]:
        """Yield the outputs [n, *output_shape] of the samples of `index` in parts, which the next part overwrites."""
        for output in self.run("predict", samples, index):
            assert output is not None  # a pass that keeps its result
            yield output.reshape(len(output), *self._graph.output_shape)

    def logits(self, samples: Samples, index: NDArray[np.int32]) -> Array:
        """Return the logits [N, classes] or [N, classes, *places] of the samples of `index`.

        Raises  MemoryLimitError if the logits exceed the limit
        """
        found = self._room("predict", len(index), self._graph.nodes[-1].name)
        self._fill(found, self.run("predict", samples, index))
        self._workspace.sessions.drop_latest()  # do not keep the samples alive
        places = self._graph.output_shape[1:]
        return found if math.prod(places) > 1 else found.reshape(len(index), -1)

    def features(self, samples: Samples, index: NDArray[np.int32], cut: str, chunk: int | None = None) -> Array:
        """Return the results at a cut, [N, *shape of one result]. Raises MemoryLimitError if they exceed the limit."""
        found = self._room("features", len(index), cut)
        self._fill(found, self.run("features", samples, index, chunk, cut))
        return found

    def _room(self, mode: Mode, count: int, name: str) -> Array:
        """Return an uninitialised array for the values of a result of `count` examples."""
        shape = (count, *self._graph.shapes[name])
        account, dtype = self._workspace.account, self._workspace.store.dtype
        account.admit(f"{mode} of {count} examples", math.prod(shape) * dtype.itemsize)
        return np.empty(shape, dtype)

    @staticmethod
    def _fill(found: Array, outputs: Iterator[Array | None]) -> None:
        start = 0
        for output in outputs:
            assert output is not None  # a pass that keeps its result
            found[start : start + len(output)] = output.reshape(len(output), *found.shape[1:])
            start += len(output)

    def run(
        self, mode: Mode, samples: Samples, index: NDArray[np.int32], chunk: int | None = None, cut: str = ""
    ) -> Iterator[Array | None]:
        """Run a pass over chunks of `index`, and yield each chunk's output, which the next chunk overwrites."""
        session = self._workspace.sessions.open(mode, samples, cut=cut)
        size = chunk or self._chunk()
        parts = [index[start : start + size] for start in range(0, len(index), size)]
        self._workspace.prepare(session, {len(part) for part in parts})
        for start, part in zip(range(0, len(index), size), parts, strict=True):
            self._workspace.scalars.dropout[:] = 0, 0, start  # so noise depends on the sample's position alone
            bound = session.programs[len(part)]
            bound.index[:] = part
            bound.program.run()
            if mode == "features":  # features are inputs of steps
                self._workspace.meter.trained(session.schedules[len(part)])
            output = session.schedules[len(part)].output
            yield None if output is None else self._workspace.binder.view(session, len(part), output)

    def _chunk(self) -> int:
        """Return the examples per evaluation pass. They depend on graph and limit alone, so that no result depends on
        history.
        """
        if self._batch is None:
            size, room, limit = EVALUATION_BATCH, EVALUATION_ARENA_BYTES, self._workspace.account.limit.limit_bytes
            if limit is not None:
                room = min(room, (limit - self._workspace.store.model_bytes) // 4)  # the rest is for scratch
            given: dict[str, Any] = {"mode": "evaluate", "int8_activations": self._workspace.store.int8_activations}
            while size > 1 and lower(self._graph, self._spec, size, **given).arena_bytes > room:
                size //= 2
            self._batch = size
        return self._batch

"""A learner whose parameters lie elsewhere, as on a GPU. Here they are bytes, which cannot be written in place.

It computes as GraphLearner does, on a copy that is made for each call. What `read` returns turns into NaN at the next
change, so that whoever keeps it spoils the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgefl.learning import Evaluation, FitOptions, FitResult, GraphLearner, Samples
from edgefl.learning.learner import Array, Batches, ExecutedFlops, Gradient
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import Model
from edgefl.models.neurons.block_index import read_only
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import lifted
from edgefl.models.neurons.update import Update, values


class Cell:
    """One parameter, in the far memory."""

    def __init__(self, value: Array) -> None:
        self.shape, self.dtype = value.shape, value.dtype
        self.data = value.tobytes()

    def fetched(self) -> Array:
        return np.frombuffer(bytearray(self.data), self.dtype).reshape(self.shape)


class FarLearner:
    def __init__(self, model: Model) -> None:
        self._begin(GraphLearner(model), {name: Cell(value) for name, value in model.params.items()}, [])

    def _begin(self, near: GraphLearner, cells: dict[str, Cell], lent: list[Array]) -> FarLearner:
        self._near, self._cells, self._lent = near, cells, lent
        self._heads: dict[int, FarLearner] = {}
        self._subs: list[FarLearner] = []
        self._mask: Mask | None = None
        return self

    def _relative(self, near: GraphLearner) -> FarLearner:
        """A learner that shares the cells of all parameters that have the same name and shape."""
        found = {name: Cell(value) for name, value in near.read().items()}
        shared = {name: cell for name, cell in self._cells.items() if name in found and cell.shape == found[name].shape}
        return object.__new__(FarLearner)._begin(near, {**found, **shared}, self._lent)

    def _fetched(self) -> dict[str, Array]:
        return {name: cell.fetched() for name, cell in self._cells.items()}

    def _store(self, values: Mapping[str, Array]) -> None:
        for name, value in values.items():
            self._cells[name].data = value.astype(self._cells[name].dtype).tobytes()
        for array in self._lent:
            array[...] = np.nan
        self._lent.clear()

    @contextmanager
    def _loaded(self) -> Iterator[GraphLearner]:
        """Yield the near learner with the present parameters. Afterwards its parameters are NaN."""
        self._near.write(self._fetched())
        yield self._near
        self._near.write({name: np.full(cell.shape, np.nan) for name, cell in self._cells.items()})

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        found = {name: self._cells[name].fetched() for name in (self._cells if names is None else names)}
        self._lent.extend(found.values())
        return {name: read_only(value) for name, value in found.items()}

    def take(self, neurons: NeuronSet | Mask | None = None, **chosen: Any) -> Update:
        return take(self._fetched(), self._near.spec, neurons, **chosen)

    def write(self, new: Update | Mapping[str, Array]) -> None:
        with self._loaded() as near:
            near.write(new)
            self._store(near.read())

    def restrict(self, mask: Mask | None, batch: int = 16) -> None:
        with self._loaded() as near:
            near.restrict(mask, batch)
            self._store(near.read())
        self._mask = mask

    def strongest(self, *given: Any, **named: Any) -> Mapping[str, Array]:
        with self._loaded() as near:
            return near.strongest(*given, **named)

    def joined(self, batches: Batches) -> Batches:
        return self._near.joined(batches)

    def fit(
        self, samples: Samples, batches: Batches, optimizer: Optimizer, options: FitOptions = FitOptions()
    ) -> FitResult:
        with self._loaded() as near:
            found = near.fit(samples, batches, optimizer, options)
            self._store(near.read())
        return found

    def gradient(self, *given: Any, **named: Any) -> Gradient:
        with self._loaded() as near:
            return near.gradient(*given, **named)

    def evaluate(self, *given: Any) -> Evaluation:
        with self._loaded() as near:
            return near.evaluate(*given)

    def predict(self, x: Array) -> Array:
        with self._loaded() as near:
            return near.predict(x)

    def features(self, *given: Any, **named: Any) -> Array:
        with self._loaded() as near:
            return near.features(*given, **named)

    def with_head(self, classes: int) -> FarLearner:
        if classes not in self._heads:
            self._heads[classes] = self._relative(self._near.with_head(classes))
        return self._heads[classes]

    def head(self) -> FarLearner:
        return self._relative(self._near.head())

    def rest(self, cut: str) -> FarLearner:
        return self._relative(self._near.rest(cut))

    def sub(self, neurons: NeuronSet) -> FarLearner:
        self._subs.append(FarLearner(Model(self._near.graph.sub(neurons), values(self.take(neurons)))))
        return self._subs[-1]

    def absorb(self, smaller: FarLearner, neurons: NeuronSet) -> None:
        self.write(lifted(smaller.read(), self._near.spec, neurons))

    def clone(self) -> FarLearner:
        twin = FarLearner(Model(self._near.graph, self._fetched()))
        twin.restrict(self._mask)
        return twin

    def memory(self) -> dict[str, int]:
        return self._near.memory()

    def work(self) -> ExecutedFlops:
        near = self._near.work()
        apart = [each.work() for each in self._subs]
        return ExecutedFlops(near.training + sum(w.training for w in apart), near.search + sum(w.search for w in apart))

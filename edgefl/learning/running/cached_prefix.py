"""The samples and batches of a fit after a cut: the part before the cut runs once, and its results are kept.

Where a memory limit leaves no room for all results, they are computed for as many batches as fit, and again when their
rows come up again. The steps do not differ. The fit decides which steps are taken (graph_learner.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from types import ModuleType
from typing import ClassVar, NamedTuple

import numpy as np

from edgefl.errors import DataError, MemoryLimitError
from edgefl.kernels.memory import memory_of
from edgefl.learning.batches import Index, LazyBatches, keyed, occurring, of_one_size
from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, Batches, Samples
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.optimizers import Optimizer
from edgefl.learning.running.inference import Inference
from edgefl.learning.running.input_checks import check_samples, sizes_of
from edgefl.learning.running.workspace import Workspace
from edgefl.models.graph import Graph
from edgefl.models.graph.cuts import before
from edgefl.models.graph.operations import Conv1d, Conv2d

CHUNKS, BEHIND_PRODUCTS = (16, 8, 4, 2, 1), 4
"""The number of examples in a pass of the cached prefix: for convolutions alone, and for a prefix with other products.

With convolutions alone, an example's results have the same bits in a pass of any size, on every instruction set that
was tried. So a pass takes as many examples as a step or fewer, and never more memory than a step of the whole model.
With other products the bits depend on the size, and all passes have one size. The limit on memory decides which
examples run together.
"""
HALF = 2  # bytes of a float16
Results = Callable[[Index], Iterator[Array]]
"""A function that yields the results at the cut for rows of the samples. Each chunk overwrites the chunk before it."""


class Cache(NamedTuple):
    """The maker of a cut's cached results.

    graph, work, inference  graph, workspace and inference of the whole model
    cut                     name of the cut
    ops                     backend
    """

    graph: Graph
    work: Workspace
    inference: Inference
    cut: str
    ops: ModuleType

    def of(
        self, rest: Workspace, samples: Samples, batches: Batches, optimizer: Optimizer, options: FitOptions
    ) -> tuple[Samples, Batches]:
        """Return samples and batches for the steps that the learner of the part after the cut takes.

        rest     memory of that learner. From now on it also holds the results at the cut
        options  `trainable`, `delta`, `pull` and `linear` decide how much memory the steps need
        Raises   DataError if a shape, label or index does not fit. TrainingError without batches. MemoryLimitError if
                 the results of one batch do not fit besides the passes
        """
        check_samples(samples, self.graph, self.work.store.dtype)
        if samples.auxiliary:
            raise DataError(
                f"targets of auxiliary outputs with a cut after {self.cut!r}; expected one y for all outputs"
            )
        sizes, shape = sizes_of(batches, len(samples)), self.graph.shapes[self.cut]
        rows = _distinct(batches)
        terms = Terms.of(optimizer, options)
        is_half, chunk = terms.saved == "fp16", chunk_of(self.graph, self.cut, max(sizes))
        staged, row_bytes = kept_bytes(math.prod(shape), max(sizes), terms, self.work.store.dtype.itemsize)
        room = self._room(rest, samples, sizes, len(rows), options, terms)
        memory = rest.blocks.keeping(staged + room * row_bytes)

        def results(rows: Index) -> Iterator[Array]:
            filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % chunk)])
            for at, found in enumerate(self.inference.run("features", samples, filled, chunk, self.cut)):
                assert found is not None  # a pass that keeps its result
                yield found[: len(rows) - at * chunk]

        x = memory[: staged or None].view(self.work.store.dtype).reshape(-1, *shape)
        y = np.zeros((len(x), *samples.y.shape[1:]), samples.y.dtype)
        near = Samples(x, y, loss=samples.loss)
        store: ActivationStore = FloatActivationStore(results, samples.y, near, self.ops)
        if is_half:
            halves = memory[staged:].reshape(room, math.prod(shape), HALF)
            store = HalfActivationStore(results, samples.y, near, self.ops, halves)
        return near, CachedBatches(batches, store, rows, sizes, room)

    def _room(
        self,
        rest: Workspace,
        samples: Samples,
        sizes: set[int],
        rows: int,
        options: FitOptions,
        terms: Terms,
    ) -> int:
        """Return the number of rows, at most `rows`, whose results fit into the limit.

        The memory of both kinds of pass is counted: the passes before the cut, and the steps after it in batches of
        these sizes.
        """
        limit = self.work.account.limit.limit_bytes
        if limit is None:
            return rows
        values = math.prod(self.graph.shapes[self.cut])
        staged, row_bytes = kept_bytes(values, max(sizes), terms, self.work.store.dtype.itemsize)
        rest.account.release_family()
        passes = self.work.sessions.open("features", samples, cut=self.cut)
        stepping = rest.sessions.open("train", self._one(samples), options, terms)
        before = self.work.account.passes(passes, {chunk_of(self.graph, self.cut, max(sizes))})
        after = rest.account.passes(stepping, sizes)
        scratch = max(before.scratch, after.scratch)
        passing = max(before.arena, after.arena) + before.held + after.held + scratch
        taken = staged + rest.account.family_bytes + passing
        least = min(max(sizes), rows)
        if taken + least * row_bytes > limit:
            what = f"training after {self.cut!r} in batches of {max(sizes)}"
            raise MemoryLimitError(f"{what} needs {taken + least * row_bytes} bytes; limit_bytes={limit}")
        return min(rows, (limit - taken) // row_bytes)

    def _one(self, samples: Samples) -> Samples:
        """Return a sample with the shape, the type and the loss of one example's results at the cut."""
        x = np.zeros((1, *self.graph.shapes[self.cut]), self.work.store.dtype)
        return Samples(x, np.zeros_like(samples.y[:1]), loss=samples.loss)


class ActivationStore(ABC):
    """A store of the results at the cut of some rows of the samples, and of their targets.

    near  results and targets as samples, which the steps read
    most  number of steps whose results can be ready at once. None: any number
    """

    most: ClassVar[int | None]

    def __init__(self, results: Results, targets: Array, near: Samples, ops: ModuleType) -> None:
        self.near, self._results, self._targets = near, results, targets
        self._home = memory_of(ops)

    @abstractmethod
    def fill(self, rows: Index) -> None:
        """Compute and keep the results of these rows, in this order, in place of the results before."""

    @abstractmethod
    def ready(self, positions: list[Index]) -> list[Index]:
        """Return where in `near` the results of these batches are. A batch holds positions among the kept rows."""


class FloatActivationStore(ActivationStore):
    """A store of values in their own number format."""

    most = None

    def fill(self, rows: Index) -> None:
        start = 0
        for found in self._results(rows):
            self.near.x[start : start + len(found)] = found.reshape(len(found), *self.near.x.shape[1:])
            start += len(found)
        self._home.wrote(self.near.x[:start])
        self.near.y[: len(rows)] = self._targets[rows]

    def ready(self, positions: list[Index]) -> list[Index]:
        return positions


class HalfActivationStore(ActivationStore):
    """A store of values as float16, [rows, values, 2 bytes]. One batch at a time is widened into `near`."""

    most = 1

    def __init__(self, results: Results, targets: Array, near: Samples, ops: ModuleType, halves: Array) -> None:
        super().__init__(results, targets, near, ops)
        self._halves, self._ops, self._rows = halves, ops, np.zeros(0, np.int32)

    def fill(self, rows: Index) -> None:
        start, self._rows = 0, rows
        for found in self._results(rows):
            self._ops.narrow_float16(found.reshape(-1), self._halves[start : start + len(found)].reshape(-1, HALF))
            start += len(found)

    def ready(self, positions: list[Index]) -> list[Index]:
        (batch,) = positions
        self._ops.widen_float16(self._halves[batch].reshape(-1, HALF), self.near.x[: len(batch)].reshape(-1))
        self._home.wrote(self.near.x[: len(batch)])
        self.near.y[: len(batch)] = self._targets[self._rows[batch]]
        return [np.arange(len(batch), dtype=np.int32)]


class CachedBatches(LazyBatches):
    """The batches of a fit, as rows of the samples `near` of a store.

    distinct  all rows that occur, sorted
    room      number of rows whose results the store can keep
    """

    def __init__(self, batches: Batches, store: ActivationStore, distinct: Index, sizes: set[int], room: int) -> None:
        self._batches, self._store, self._distinct, self._sizes, self._room = batches, store, distinct, sizes, room
        self.dropout = partial(keyed, batches)
        self.rows = np.arange(len(store.near), dtype=np.int32)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def sizes(self) -> set[int]:
        return self._sizes

    def runs(self, steps: int) -> Iterator[Index]:
        positions = np.empty(self._distinct[-1] + 1, np.int32)  # position of each row among the kept rows
        for rows, run in self._runs():
            self._store.fill(rows)
            positions[rows] = np.arange(len(rows), dtype=np.int32)
            rest = iter(run)
            while piece := list(islice(rest, min(steps, self._store.most or steps))):
                yield from of_one_size(self._store.ready([positions[batch] for batch in piece]))

    def _runs(self) -> Iterator[tuple[Index, Iterable[Index]]]:
        """Yield runs of consecutive batches whose rows fit together, and these rows, sorted."""
        if len(self._distinct) <= self._room:
            yield self._distinct, self._batches
            return
        rows, run = np.zeros(0, np.int32), list[Index]()
        for batch in self._batches:
            more = np.union1d(rows, batch)
            if len(more) > self._room:
                yield rows, run
                more, run = np.unique(batch), []
            rows = more
            run.append(batch)
        yield rows, run


@lru_cache(maxsize=64)
def chunk_of(graph: Graph, cut: str, batch: int) -> int:
    """Return the number of examples in a pass of the part before the cut, for steps of at most `batch` examples."""
    multiplies = graph.macs()
    products = [node.op for node in before(graph, cut) if node.name in multiplies]
    if not all(isinstance(op, Conv1d | Conv2d) for op in products):
        return BEHIND_PRODUCTS
    return next(chunk for chunk in CHUNKS if chunk <= batch)


def kept_bytes(values: int, batch: int, terms: Terms, float_bytes: int) -> tuple[int, int]:
    """Return the bytes that are needed besides the kept results, and the bytes of one example's kept results.

    There are `values` values per example at the cut.
    """
    if terms.saved == "fp16":
        return batch * values * float_bytes, HALF * values
    return 0, values * float_bytes


def _distinct(batches: Batches) -> Index:
    """Return all rows that occur, sorted."""
    return np.unique(np.concatenate(occurring(batches)[0]))

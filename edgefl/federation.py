"""Who takes part in a simulation: the model, every client's samples, and the few learners that play all clients.

Not a method and not the round loop. A hundred clients' models are never alive at once: a client's model is read from
its file into one of the learners, and written back after training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from edgefl import partition, rng
from edgefl.algorithms.base import Local
from edgefl.errors import DataError
from edgefl.graph import Graph, Model, Params
from edgefl.learners import GraphLearner, Learner, Samples
from edgefl.partition import Indices
from edgefl.runs import Journal
from edgefl.spec import ModelSpec
from edgefl.state_file import Kept


@dataclass(frozen=True)
class Split:
    """One client's samples: int32 indices into the federation's data, disjoint."""

    train: NDArray[np.int32]
    validation: NDArray[np.int32]
    test: NDArray[np.int32]


@dataclass(frozen=True)
class Federation:
    """The model, the data, which client owns what, and the seed. `common` is a test set that no client owns, if any."""

    graph: Graph
    data: Samples
    clients: tuple[Split, ...]
    seed: int
    common: Samples | None = None

    @property
    def examples(self) -> int:
        """For training, of all clients together."""
        return sum(len(split.train) for split in self.clients)


def split(share: Indices, seed: int, client: int, train_share: float, validation_share: float) -> Split:
    """A client's parts of its own samples; a function of the seed and the client alone.

    Raises  DataError if the client gets no training or no test samples.
    """
    stream = rng.stream(seed, rng.SPLIT, client=client)
    train, validation, test = partition.split(share, stream, train_share, validation_share)
    if not len(train) or not len(test):
        parts = f"{len(train)} training and {len(test)} test samples"
        raise DataError(f"client {client} gets {parts} of {len(share)}; expected at least one of each: fewer clients")
    return Split(train, validation, test)


class Devices:
    """`workers` learners that stand for all clients."""

    def __init__(self, federation: Federation, initial: Params, journal: Journal, workers: int) -> None:
        self._federation = federation
        self._spec = ModelSpec.of(federation.graph)
        self._journal = journal
        self._idle: SimpleQueue[Learner] = SimpleQueue()
        for _ in range(workers):
            copy = {name: value.copy() for name, value in initial.items()}
            self._idle.put(GraphLearner(Model(federation.graph, copy)))

    @contextmanager
    def learner(self, params: Mapping[str, np.ndarray]) -> Iterator[Learner]:
        """A learner that holds a copy of `params`, for the length of the with block."""
        learner = self._idle.get()
        try:
            for name, value in learner.params.items():
                value[...] = params[name]
            yield learner
        finally:
            self._idle.put(learner)

    def has_trained(self, client: int) -> bool:
        """True once the client has a model of its own in the run directory."""
        return self._journal.has_local(client)

    @contextmanager
    def local(self, client: int, untrained: Params) -> Iterator[Local]:
        """The client with what it keeps; its model is `untrained` if it has never trained, or keeps none."""
        kept = self._journal.load_local(client) or Kept({}, {}, {})
        split = self._federation.clients[client]
        with self.learner(kept.params or untrained) as learner:
            yield Local(
                client,
                self._federation.seed,
                self._spec,
                learner,
                self._federation.data,
                split.train,
                split.validation,
                split.test,
                kept.private,
                kept.arrays,
            )

"""The few learners that play all clients of a simulation.

A hundred clients' models are never alive at once: a client's model is read from its file into one of the learners, and
written back after training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np

from edgefl.algorithms.base import Local
from edgefl.experiment.federation import Federation
from edgefl.graph import Model, Params
from edgefl.learners import GraphLearner, Learner
from edgefl.learners.base import MakeLearner
from edgefl.neurons.spec import ModelSpec
from edgefl.rounds.state_file import Kept
from edgefl.simulation.journal import Journal


class LearnerPool:
    """`workers` learners, made by `make`, that stand for all clients."""

    def __init__(
        self, federation: Federation, initial: Params, journal: Journal, workers: int, make: MakeLearner = GraphLearner
    ) -> None:
        self._federation = federation
        self._spec = ModelSpec.of(federation.graph)
        self._journal = journal
        self._idle: SimpleQueue[Learner] = SimpleQueue()
        for _ in range(workers):
            copy = {name: value.copy() for name, value in initial.items()}
            self._idle.put(make(Model(federation.graph, copy)))

    @contextmanager
    def learner(self, params: Mapping[str, np.ndarray]) -> Iterator[Learner]:
        """A learner that holds a copy of `params`, for the length of the with block."""
        learner = self._idle.get()
        try:
            learner.write({name: params[name] for name in self._spec.params})
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

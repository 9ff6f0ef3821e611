"""The four accuracies of ALGORITHMS 0, for every client, at the rounds where the simulation asks for them.

(a), (b) personal models on their own test split, unweighted and weighted by test size: the client's own, or the body of
the server under the client's own head, or the global model adapted to the client, which is then named so; (c) the
global model on every local test split; (d) the global model on the common test set. Each paper's metric is one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from edgefl.algorithms.base import MODEL, Algorithm, State
from edgefl.experiment.federation import Federation
from edgefl.graph import Params
from edgefl.learners.base import Evaluation
from edgefl.rounds.metrics import accuracies, common_scores
from edgefl.simulation.learner_pool import LearnerPool


class Evaluator:
    """Evaluates all clients; a personal model of the client's own is evaluated again only after it has changed."""

    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        devices: LearnerPool,
        initial: Params,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._algorithm, self._federation, self._devices, self._initial = algorithm, federation, devices, initial
        self._pool = pool
        self._personal: dict[int, Evaluation] = {}

    def forget(self, client: int) -> None:
        """The client's model has changed."""
        self._personal.pop(client, None)

    def bundle(self, state: State) -> dict[str, Any]:
        """The accuracies of this state, as JSON values. Every client has test samples."""
        result: dict[str, Any] = {}
        decisions = self._federation.decisions
        if kind := self._algorithm.scored(state.arrays):
            result[kind] = accuracies(self._all(lambda client: self._personal_of(state, client)), decisions)
        if MODEL in state.arrays:
            model = state.arrays[MODEL]
            result["global_local"] = accuracies(self._all(lambda client: self._global_of(model, client)), decisions)
            if self._federation.common is not None:
                with self._devices.learner(model) as learner:
                    common = learner.evaluate(self._federation.common)
                result["global_common"] = common_scores(common, decisions)
        return result

    def _all(self, one: Callable[[int], Evaluation]) -> list[Evaluation]:
        return list(self._pool.map(one, range(len(self._federation.clients))))

    def _personal_of(self, state: State, client: int) -> Evaluation:
        if client in self._personal:
            return self._personal[client]
        untrained, shared = self._algorithm.untrained(state, self._initial), self._algorithm.shared(state.arrays)
        with self._devices.local(client, untrained) as local:
            found = self._algorithm.evaluate(local, shared)
        if shared is None and (untrained is self._initial or self._devices.has_trained(client)):
            self._personal[client] = found
        return found

    def _global_of(self, model: Params, client: int) -> Evaluation:
        with self._devices.learner(model) as learner:
            return learner.evaluate(self._federation.data, self._federation.clients[client].test)

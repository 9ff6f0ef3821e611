"""The four accuracies of ALGORITHMS 0, for every client, at the rounds where the simulation asks for them.

(a), (b) personal models on their own test split, unweighted and weighted by test size: the client's own, or the body of
the server under the client's own head, or the global model adapted to the client, which is then named so; (c) the
global model on every local test split; (d) the global model on the common test set. Each paper's metric is one of them.
"""

from __future__ import annotations

from typing import Any

from edgefl.algorithms.base import MODEL, State
from edgefl.learners.base import Evaluation
from edgefl.rounds.metrics import accuracies, common_scores
from edgefl.simulation.engine import Engine, Shelf
from edgefl.simulation.player import Cast, CommonEvaluation, GlobalEvaluation, PersonalEvaluation


class Evaluator:
    """Evaluates all clients; a personal model of the client's own is evaluated again only after it has changed."""

    def __init__(self, cast: Cast, engine: Engine, shelf: Shelf) -> None:
        self._cast, self._engine, self._shelf = cast, engine, shelf
        self._personal: dict[int, Evaluation] = {}

    def forget(self, client: int) -> None:
        """The client's model has changed."""
        self._personal.pop(client, None)

    def bundle(self, state: State, round: int) -> dict[str, Any]:
        """The accuracies of this state after that round, as JSON values. Every client has test samples."""
        result: dict[str, Any] = {}
        decisions, clients = self._cast.federation.decisions, range(len(self._cast.federation.clients))
        if kind := self._cast.algorithm.scored(state.arrays):
            result[kind] = accuracies(self._of_all(state, round), decisions)
        if MODEL in state.arrays:
            model = [state.arrays[MODEL]]
            found = self._engine.do([GlobalEvaluation(client) for client in clients], round, model)
            result["global_local"] = accuracies(found, decisions)
            if self._cast.federation.common is not None:
                (common,) = self._engine.do([CommonEvaluation()], round, model)
                result["global_common"] = common_scores(common, decisions)
        return result

    def _of_all(self, state: State, round: int) -> list[Evaluation]:
        """Of every client's personal model."""
        algorithm, initial = self._cast.algorithm, self._cast.initial
        untrained, shared = algorithm.untrained(state, initial), algorithm.shared(state.arrays)
        clients = range(len(self._cast.federation.clients))
        jobs = [PersonalEvaluation(client) for client in clients if client not in self._personal]
        found = dict(self._personal)
        for job, evaluation in zip(jobs, self._engine.do(jobs, round, (untrained, shared)), strict=True):
            found[job.client] = evaluation
            if shared is None and (untrained is initial or self._shelf.tag(job.client) is not None):
                self._personal[job.client] = evaluation
        return [found[client] for client in clients]

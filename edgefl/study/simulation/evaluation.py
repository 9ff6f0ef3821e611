"""The accuracies of ALGORITHMS 0 for every client, at the rounds that the simulation evaluates.

Each paper's metric is among them. (a) and (b) score personal models on their own test split, unweighted and weighted by
test size. A personal model is the client's own, the server's body under the client's own head, or the global model
adapted to the client, which is then named so. (c) scores the global model on every local test split, and (d) on the
common test set. On request, (e) scores the client's model after a refresh, (f) is (a) or (c) on training samples, and
(g) scores clients that never take part, with what the method makes of the server's model for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgefl.learning.learner import Evaluation
from edgefl.methods.rounds.adaptation import Adaptation
from edgefl.methods.rounds.round_metrics import HELD_OUT, REFRESHED, TRAINING, accuracies, common_scores
from edgefl.methods.task import MODEL, State, Task
from edgefl.study.simulation.client_player import SimulationContext, shared_out
from edgefl.study.simulation.engine import ClientStateStore, Engine
from edgefl.study.simulation.evaluation_jobs import (
    CommonEvaluation,
    GlobalEvaluation,
    NewcomerEvaluation,
    Part,
    PersonalEvaluation,
    Refreshed,
    RefreshedEvaluation,
)

AT_ONCE = 64  # most clients whose refreshes are in memory at the same time
TOGETHER = 256  # most clients whose samples one job evaluates with the same model


class Evaluator:
    """The evaluation of all clients. A client's personal model is evaluated again only after it has changed.

    adaptations  work of each client to adapt its model before its last test
    """

    def __init__(self, cast: SimulationContext, task: Task, engine: Engine, shelf: ClientStateStore) -> None:
        self._cast, self._task, self._engine, self._shelf = cast, task, engine, shelf
        self._clients = range(len(cast.federation.clients))
        self._parts: tuple[Part, ...] = ("test", "train") if cast.settings.train_scores else ("test",)
        self._newcomers = range(len(self._clients), len(self._clients) + len(cast.federation.held_out))
        self._personal: dict[int, list[Evaluation]] = {}
        self.adaptations: dict[int, Adaptation] = {}

    def forget(self, client: int) -> None:
        """Forget the scores of a client whose model has changed."""
        self._personal.pop(client, None)

    def bundle(self, state: State, round: int) -> dict[str, Any]:
        """Return the accuracies of this state after that round, as JSON values. Every client has test samples."""
        result: dict[str, Any] = {}
        federation = self._cast.federation
        asked = federation.decisions, federation.place_score
        counted: list[list[Evaluation]] = []
        if kind := self._cast.algorithm.scored(state.arrays):
            counted = self._of_all(state, round)
            result[kind] = accuracies([tested for tested, *_ in counted], *asked)
        if MODEL in state.arrays:
            model, parts = [state.arrays[MODEL]], ("test",) if kind else self._parts
            jobs = [GlobalEvaluation(clients, parts) for clients in self._in_parts()]
            found = [scores for part in self._engine.do(jobs, round, model) for scores in part]
            counted = counted or found
            result["global_local"] = accuracies([tested for tested, *_ in found], *asked)
            if federation.common is not None:
                (common,) = self._engine.do([CommonEvaluation()], round, model)
                result["global_common"] = common_scores(common, *asked)
        if "train" in self._parts:
            result[TRAINING] = accuracies([found[self._parts.index("train")] for found in counted], *asked)
        if epochs := self._cast.settings.refresh:
            refreshed = self._refreshed(state, round, epochs)
            scores = accuracies([each.found for each in refreshed], *asked)
            result[REFRESHED] = {**scores, "epochs": epochs, "down": sum(each.down for each in refreshed)}
        if self._newcomers:
            result[HELD_OUT] = accuracies(self._of_newcomers(state, round), *asked)
        return result

    def _in_parts(self) -> Iterator[range]:
        """Yield all clients in ranges, at least four for each worker as long as there are so many clients."""
        most = max(1, len(self._clients) // (4 * self._cast.settings.workers))
        for first in self._clients[:: (size := min(TOGETHER, most))]:
            yield self._clients[first : first + size]

    def _of_all(self, state: State, round: int) -> list[list[Evaluation]]:
        """Return the scores of every client's personal model, on each part of its samples."""
        algorithm, initial = self._cast.algorithm, self._cast.initial
        untrained, shared = algorithm.untrained(state, initial), algorithm.shared(state.arrays)
        jobs = [PersonalEvaluation(client, self._parts) for client in self._clients if client not in self._personal]
        found = dict(self._personal)
        for job, scores in zip(jobs, self._engine.do(jobs, round, (untrained, shared)), strict=True):
            found[job.client], self.adaptations[job.client] = scores
            if shared is None and (untrained is initial or self._shelf.tag(job.client) is not None):
                self._personal[job.client] = scores.found
        return [found[client] for client in self._clients]

    def _of_newcomers(self, state: State, round: int) -> list[Evaluation]:
        """Return the scores of the clients that never take part."""
        jobs = [NewcomerEvaluation(client) for client in self._newcomers]
        return list(self._engine.do(jobs, round, (self._cast.initial, state.arrays)))

    def _refreshed(self, state: State, round: int, epochs: int) -> list[Refreshed]:
        """Return the scores of every client's model after it has taken what the next round would send it."""
        untrained = self._cast.algorithm.untrained(state, self._cast.initial)
        found: list[Refreshed] = []
        for first in self._clients[::AT_ONCE]:
            clients: Sequence[int] = self._clients[first : first + AT_ONCE]
            plans, updates = shared_out(self._cast.algorithm.refreshes(self._task, state, round + 1, clients))
            jobs = [RefreshedEvaluation(plan, positions, epochs) for plan, positions in plans]
            found += self._engine.do(jobs, round, (untrained, *updates))
        return found

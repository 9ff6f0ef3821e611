"""The round loop with no network: the definition of correct for the server.

Every payload passes through the messages of the protocol in both directions; every client's model and private values
live in files of the run directory. The result depends on the method, the federation and the seed alone: not on the
number of workers, nor on being killed and resumed. Not the evaluation (evaluation.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from edgefl import kernels
from edgefl.algorithms.base import Algorithm, Plan, Reply, State, Task
from edgefl.errors import RunError
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learners import GraphLearner
from edgefl.learners.base import MakeLearner
from edgefl.neurons.spec import ModelSpec
from edgefl.rounds.closing import close
from edgefl.rounds.exchange import plan_of, read_answer, train_message, trained_message
from edgefl.rounds.metrics import ClientRound, accepts_nobody, round_line, stuck
from edgefl.rounds.participation import TRAINED, Participation
from edgefl.rounds.state_file import Kept
from edgefl.rounds.training import trained
from edgefl.simulation.evaluation import Evaluator
from edgefl.simulation.journal import Journal
from edgefl.simulation.learner_pool import LearnerPool


def simulate(
    algorithm: Algorithm,
    federation: Federation,
    settings: Settings,
    journal: Journal,
    watch: Callable[[dict[str, Any]], None] = lambda line: None,
    participation: Participation | None = None,
    make: MakeLearner = GraphLearner,
) -> State:
    """Runs the rounds that the journal has not committed yet; the server's final state.

    watch          called with every round's metrics line, in the order of rounds
    participation  who takes part in each round, as in a run that was served; None: everyone who is selected
    make           gives the learners that train
    Raises         RunError if other clients are selected than those that took part, or when too many rounds in a row
                   have accepted nobody
    """
    simulation = _Simulation(algorithm, federation, settings, journal, participation, make)
    try:
        with _kernel_threads(1 if settings.workers > 1 else None):
            return simulation.run(watch)
    finally:
        simulation.pool.shutdown(cancel_futures=True)


@contextmanager
def _kernel_threads(count: int | None) -> Iterator[None]:
    """Limits the native kernels' own threads, where the backend has any; None leaves them as they are."""
    ops = kernels.backend()
    if count is None or not hasattr(ops, "set_threads"):
        yield
        return
    before = ops.threads()
    ops.set_threads(count)
    try:
        yield
    finally:
        ops.set_threads(before)


class _Simulation:
    def __init__(
        self,
        algorithm: Algorithm,
        federation: Federation,
        settings: Settings,
        journal: Journal,
        participation: Participation | None,
        make: MakeLearner,
    ) -> None:
        self.algorithm, self.settings, self.journal = algorithm, settings, journal
        self.participation = participation
        self.pool = ThreadPoolExecutor(settings.workers)
        self.graph, self.spec = federation.graph, ModelSpec.of(federation.graph)
        limits = {} if participation is None else participation.limits
        clients, examples = len(federation.clients), federation.examples
        outputs = federation.graph.output_shape[0]
        self.task = Task(
            self.spec,
            clients,
            federation.seed,
            limits,
            examples,
            settings.rounds,
            loss=federation.data.loss,
            outputs=outputs,
        )
        self.initial = federation.initial()
        self._earlier: dict[tuple[int, int], Kept] = {}  # by (client, round), what a client goes back to after a loss
        self.devices = LearnerPool(federation, self.initial, journal, settings.workers, make)
        self.evaluator = Evaluator(algorithm, federation, self.devices, self.initial, self.pool)

    def run(self, watch: Callable[[dict[str, Any]], None]) -> State:
        if self.journal.committed.round < 0:
            state = self.algorithm.start(self.task, self.initial)
            self.journal.commit(0, state)
        state, round, done = self.journal.load_state(), self.journal.committed.round, self.journal.committed.done
        plans, empty = [] if done else self._plan(state, round + 1), 0
        while not done:
            round += 1
            state, line = self._round(state, round, plans)
            plans = self._plan(state, round + 1)
            done = round == (self.settings.stop_after or self.settings.rounds) or not plans
            if done or round % self.settings.eval_every == 0:
                line["evaluation"] = self.evaluator.bundle(state)
            self.journal.log(line)
            empty = empty + 1 if accepts_nobody(line) else 0
            is_stuck = not done and self.participation is None and empty >= self.settings.max_empty_rounds
            if done or is_stuck or round % self.settings.checkpoint_every == 0:
                self.journal.commit(round, state, done)
            watch(line)
            if is_stuck:
                raise RunError(stuck(round, empty, line))
        return state

    def _plan(self, state: State, round: int) -> list[Plan]:
        """The plans of a round, of those that could be chosen then."""
        task, logged = self.task, self.participation
        if logged is not None:
            task = replace(task, candidates=logged.candidates.get(round), lost=logged.lost(round))
        return self.algorithm.plan(task, state, round)

    def _round(self, state: State, round: int, plans: list[Plan]) -> tuple[State, dict[str, Any]]:
        started = time.perf_counter()
        if self.participation is not None:
            self.participation.check(round, [plan.client for plan in plans])
        outcomes = list(self.pool.map(self._client_round, plans))
        replies = [(plan, outcome.reply) for plan, outcome in zip(plans, outcomes, strict=True)]
        accepted = [(plan, reply) for plan, reply in replies if reply is not None]
        closing = close(self.task, self.algorithm, state, accepted, round, self.settings.folding)
        seconds = time.perf_counter() - started
        return closing.state, round_line(round, [outcome.record for outcome in outcomes], closing, seconds)

    def _client_round(self, plan: Plan) -> _Outcome:
        """One client's part of a round: the message down, training, the message up, and its private files."""
        logged = "accepted" if self.participation is None else self.participation.outcomes[plan.round, plan.client]
        if logged not in TRAINED:
            return _Outcome(None, ClientRound(plan.client, plan.settings, "absent"))
        self._lose(plan.client, plan.round)
        down = train_message(plan, self.spec, self.settings.values)
        with self.devices.local(plan.client, self.initial) as local:
            received = plan_of(down, plan.client, self.spec, self.algorithm.held(local))
            reply, seconds = trained(self.algorithm, self.graph, local, received, time.perf_counter)
            up = trained_message(reply, received, self.spec, self.settings.values, seconds)
            declared = self.settings.folding.declared(self.algorithm, len(local.train))
            answer = read_answer(up, plan, self.spec, declared)
            if (answer.reply is not None or logged == "late") and self.algorithm.keeps_state:
                params = local.learner.read() if self.algorithm.keeps_model else {}
                self.journal.save_local(plan.client, plan.round, Kept(params, local.private, local.arrays))
                self.evaluator.forget(plan.client)
                self._remember(plan.client, plan.round)
        record = ClientRound.answered(plan, down, up, answer)
        if logged == "late":
            return _Outcome(None, replace(record, status="late"))
        return _Outcome(answer.reply, record)

    def _lose(self, client: int, round: int) -> None:
        """If the client's device lost what it kept before it trained in this round, it goes on from what it had."""
        kept = None if self.participation is None else self.participation.restart(client, round)
        if kept is None:
            return
        self.journal.forget_local(client)
        if kept:
            self.journal.save_local(client, kept, self._earlier[client, kept])
        self.evaluator.forget(client)

    def _remember(self, client: int, round: int) -> None:
        if self.participation is not None and self.participation.is_needed_later(client, round):
            kept = self.journal.load_local(client)
            assert kept is not None  # it has just been saved
            self._earlier[client, round] = kept


class _Outcome(NamedTuple):
    """The reply to fold, if any, and what the metrics say of it."""

    reply: Reply | None
    record: ClientRound

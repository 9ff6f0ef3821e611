"""The round loop with no network: the definition of correct for the server.

Every payload passes through the messages of the protocol in both directions; every client's model and private values
live in files of the run directory. The result depends on the method, the federation and the seed alone: not on the
number of workers, nor on being killed and resumed. Not what a client does (player.py), nor where (engine.py), nor the
evaluation (evaluation.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgefl.algorithms.base import Algorithm, Plan, State, Task
from edgefl.errors import StuckError
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learners import GraphLearner
from edgefl.learners.base import MakeLearner
from edgefl.neurons.spec import ModelSpec
from edgefl.rounds.closing import close
from edgefl.rounds.metrics import ClientRound, accepts_nobody, round_line, stuck
from edgefl.rounds.participation import TRAINED, Participation
from edgefl.rounds.state_file import Kept
from edgefl.simulation.engine import Engine, MakeEngine, Threads
from edgefl.simulation.evaluation import Evaluator
from edgefl.simulation.journal import Journal
from edgefl.simulation.player import Cast, Outcome, trainings


def simulate(
    algorithm: Algorithm,
    federation: Federation,
    settings: Settings,
    journal: Journal,
    watch: Callable[[dict[str, Any]], None] = lambda line: None,
    participation: Participation | None = None,
    make: MakeLearner = GraphLearner,
    engine: MakeEngine = Threads,
) -> State:
    """Runs the rounds that the journal has not committed yet; the server's final state.

    watch          called with every round's metrics line, in the order of rounds
    participation  who takes part in each round, as in a run that was served; None: everyone who is selected
    make           gives the learners that train
    engine         gives what does the clients' part of the work
    Raises         RunError if other clients are selected than those that took part, or when too many rounds in a row
                   have accepted nobody
    """
    initial = federation.initial()
    cast = Cast(algorithm, federation, initial, settings, make)
    work = engine(cast, journal, settings.workers)
    try:
        return _Simulation(cast, journal, participation, work).run(watch)
    finally:
        work.close()


class _Simulation:
    def __init__(self, cast: Cast, journal: Journal, participation: Participation | None, engine: Engine) -> None:
        self.algorithm, self.settings, self.initial = cast.algorithm, cast.settings, cast.initial
        self.journal, self.participation, self.engine = journal, participation, engine
        federation = cast.federation
        self.task = Task(
            ModelSpec.of(federation.graph),
            len(federation.clients),
            federation.seed,
            {} if participation is None else participation.limits,
            federation.examples,
            cast.settings.rounds,
            loss=federation.data.loss,
            outputs=federation.graph.output_shape[0],
            graph=federation.graph,
        )
        self._earlier: dict[tuple[int, int], Kept] = {}  # by (client, round), what a client goes back to after a loss
        self.evaluator = Evaluator(cast, self.task, engine, journal)

    def run(self, watch: Callable[[dict[str, Any]], None]) -> State:
        if self.journal.committed.round < 0:
            state = self.algorithm.start(self.task, self.initial)
            self.journal.commit(0, state)
        state, round = self.journal.load_state(), self.journal.committed.round
        last = self.settings.stop_after or self.settings.rounds
        done = self.journal.committed.done and round >= last  # one that was done goes on if it has got more rounds
        plans, empty = [] if done else self._plan(state, round + 1), 0
        done = done or (self.journal.committed.done and not plans)
        while not done:
            round += 1
            state, line = self._round(state, round, plans)
            plans = self._plan(state, round + 1)
            done = round == last or not plans
            if done or round % self.settings.eval_every == 0:
                line["evaluation"] = self.evaluator.bundle(state, round)
            self.journal.log(line)
            empty = empty + 1 if accepts_nobody(line) else 0
            is_stuck = not done and self.participation is None and empty >= self.settings.max_empty_rounds
            if done or is_stuck or round % self.settings.checkpoint_every == 0:
                self.journal.commit(round, state, done)
            watch(line)
            if is_stuck:
                raise StuckError(stuck(round, empty, line))
        return state

    def _plan(self, state: State, round: int) -> list[Plan]:
        """The plans of a round, of those that could be chosen then."""
        task, logged = self.task, self.participation
        if logged is not None:
            paces = logged.paces_at(round)
            task = replace(task, candidates=logged.candidates.get(round), lost=logged.lost(round), paces=paces)
        return self.algorithm.plan(task, state, round)

    def _round(self, state: State, round: int, plans: list[Plan]) -> tuple[State, dict[str, Any]]:
        started = time.perf_counter()
        if self.participation is not None:
            self.participation.check(round, [plan.client for plan in plans])
        outcomes = self._outcomes(round, plans)
        replies = [(plan, outcome.reply) for plan, outcome in zip(plans, outcomes, strict=True)]
        accepted = [(plan, reply) for plan, reply in replies if reply is not None]
        closing = close(self.task, self.algorithm, state, accepted, round, self.settings.folding)
        seconds = time.perf_counter() - started
        return closing.state, round_line(round, [outcome.record for outcome in outcomes], closing, seconds)

    def _outcomes(self, round: int, plans: list[Plan]) -> list[Outcome]:
        """What came of every plan; who did not take part has not trained."""
        logged = [self._logged(plan) for plan in plans]
        training = [plan for plan, outcome in zip(plans, logged, strict=True) if outcome in TRAINED]
        for plan in training:
            self._lose(plan.client, round)
        jobs, common = trainings(training, lambda plan: self._logged(plan) == "late")
        found = {job.client: outcome for job, outcome in zip(jobs, self.engine.do(jobs, round, common), strict=True)}
        for client, outcome in found.items():
            if outcome.has_kept:
                self.evaluator.forget(client)
                self._remember(client, round)
        absent = [Outcome(None, ClientRound(plan.client, plan.settings, "absent")) for plan in plans]
        return [found.get(plan.client, without) for plan, without in zip(plans, absent, strict=True)]

    def _logged(self, plan: Plan) -> str | None:
        """What the run that is repeated says of a plan; "accepted" where none is."""
        return "accepted" if self.participation is None else self.participation.outcomes[plan.round, plan.client]

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

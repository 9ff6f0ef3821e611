"""The round loop without a network, which defines the correct results of the server.

A client gets what the protocol's messages would carry in both directions, and the first client of each round gets it by
messages (methods/rounds/carrier.py). Every client's model and private values live in files of the run directory. The
result depends on the method, the federation and the seed alone. It depends
neither on the number of workers nor on interruptions. client_player.py does a client's work, engine.py distributes it,
and evaluation.py evaluates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgefl.errors import StuckError
from edgefl.experiment.device_models.asynchronous_clock import AsynchronousClock
from edgefl.experiment.device_models.simulated_clock import VirtualClock
from edgefl.experiment.evaluation_rounds import is_evaluated
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import GraphLearner
from edgefl.learning.learner import MakeLearner
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.early_stopping import plans
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.adaptation import adaptation_metrics
from edgefl.methods.rounds.asynchronous import with_places
from edgefl.methods.rounds.diagnosis import diagnosis
from edgefl.methods.rounds.participation import TRAINED, FullParticipation, ParticipationModel
from edgefl.methods.rounds.round_closing import close, values_before
from edgefl.methods.rounds.round_metrics import ClientRound, accepts_nobody, round_metrics, stuck
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.task import State
from edgefl.study.simulation.client_player import Outcome, SimulationContext, trainings
from edgefl.study.simulation.engine import Engine, MakeEngine, Threads
from edgefl.study.simulation.evaluation import Evaluator
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.tasks_in_flight import TasksInFlight


def simulate(
    algorithm: Algorithm,
    federation: Federation,
    settings: Settings,
    journal: Journal,
    watch: Callable[[dict[str, Any]], None] = lambda log_record: None,
    participation: ParticipationModel | None = None,
    make: MakeLearner = GraphLearner,
    engine: MakeEngine = Threads,
) -> State:
    """Run the rounds that the journal has not committed yet, and return the server's final state.

    watch          called with every round's metrics line, in the order of rounds
    participation  who takes part in each round, as in a served run. None: everyone who is selected, or the modelled
                   devices that are available and in time
    make           makes the learners that train
    engine         makes the engine that does the clients' part of the work
    Raises         RunError if other clients are selected than the clients that took part, or if too many rounds in a
                   row have accepted no reply
    """
    initial = federation.initial()
    cast = SimulationContext(algorithm, federation, initial, settings, make)
    work = engine(cast, journal, settings.workers)
    try:
        return _Simulation(cast, journal, participation or _attendance(cast, journal), work).run(watch)
    finally:
        work.close()


def _attendance(cast: SimulationContext, journal: Journal) -> ParticipationModel:
    """Return the participation in the rounds that are not committed yet."""
    federation, fleet, deadline_s = cast.federation, cast.settings.fleet, cast.settings.deadline_s
    if fleet is None:
        return FullParticipation()
    examples = [len(split.train) for split in federation.clients]
    if cast.settings.asynchronous is not None:
        return AsynchronousClock(fleet, len(examples), federation.seed, cast.settings.asynchronous.buffer, examples)
    clock = VirtualClock(fleet, len(examples), federation.seed, deadline_s, examples)
    for log_record in journal.metrics():
        clock.goes_on(log_record)
    return clock


class _Simulation:
    def __init__(
        self, cast: SimulationContext, journal: Journal, attendance: ParticipationModel, engine: Engine
    ) -> None:
        self.algorithm, self.settings, self.initial = cast.algorithm, cast.settings, cast.initial
        self.journal, self.attendance, self.engine = journal, attendance, engine
        self.task = cast.federation.task(cast.settings.rounds, attendance.limits)
        self._earlier: dict[
            tuple[int, int], StoredClientState
        ] = {}  # (client, round) -> state to which a client returns after a loss
        self.in_flight = TasksInFlight(cast.settings.asynchronous, attendance)
        self.evaluator = Evaluator(cast, self.task, engine, journal)

    def run(self, watch: Callable[[dict[str, Any]], None]) -> State:
        self.journal.states.still = {name: self.initial[name] for name in self.task.spec.frozen}
        if self.journal.committed.round < 0:
            state = self.algorithm.start(self.task, self.initial)
            self.journal.commit(0, state)
        state, round = self.journal.load_state(), self.journal.committed.round
        last = self.settings.stop_after or self.settings.rounds
        done = self.journal.committed.done and round >= last  # a run that was done continues with more rounds
        plans, empty = [] if done else self._plan(state, round + 1), 0
        done = done or (self.journal.committed.done and not plans)
        while not done:
            round += 1
            state, log_record = self._round(state, round, plans)
            plans = self._plan(state, round + 1) if round < last else []
            done = round == last or not (plans or self.in_flight.clients)
            if done or is_evaluated(round, self.settings.eval_every, self.settings.evaluate_first):
                log_record["evaluation"] = self.evaluator.bundle(state, round)
                log_record |= adaptation_metrics(self.evaluator.adaptations, self.attendance.adapted)
            self.journal.log(log_record)
            empty = empty + 1 if accepts_nobody(log_record) else 0
            is_stuck = not done and not self.attendance.is_over and empty >= self.settings.max_empty_rounds
            may_stop = not self.in_flight.clients  # replies that wait are not kept
            if done or (may_stop and (is_stuck or round % self.settings.checkpoint_every == 0)):
                self.journal.commit(round, state, done)
            watch(log_record)
            if is_stuck:
                raise StuckError(stuck(round, empty, log_record))
        return state

    def _plan(self, state: State, round: int) -> list[Plan]:
        """Plan a round with the first offer of available clients for which the method has plans."""
        lost, throughputs = self.attendance.lost(round), self.attendance.throughputs_at(round)
        places = self.attendance.places(round, self.in_flight.places)
        if places == 0:
            return []
        algorithm = self.algorithm if places is None else with_places(self.algorithm, places)
        for candidates in self.attendance.offers(round, self.in_flight.clients):
            task = replace(self.task, candidates=candidates, lost=lost, throughputs=throughputs)
            if found := plans(algorithm, task, state, round):
                return found
        return []

    def _round(self, state: State, round: int, plans: list[Plan]) -> tuple[State, dict[str, Any]]:
        started = time.perf_counter()
        self.attendance.check(round, [plan.client for plan in plans])
        outcomes = self._outcomes(round, plans, state)
        self.in_flight.add(plans, state, outcomes)
        ended = self.in_flight.ended(round)
        accepted = [(task.plan, task.outcome.reply) for task in ended if task.outcome.reply is not None]
        late = [task for task in ended if task.outcome.reply is not None and task.plan.round < round]
        sent = {task.plan.client: task.state for task in late}
        lengths = {task.plan.client: task.outcome.lengths for task in ended if task.plan.client not in sent}
        how = self.settings.aggregation_settings
        closing = close(self.task, self.algorithm, state, accepted, round, how, sent=sent, lengths=lengths)
        seconds = time.perf_counter() - started
        log_record = round_metrics(round, [task.record(round) for task in ended], closing, seconds)
        if self._is_diagnosed(round):
            squares = {plan.client: outcome.squares for plan, outcome in zip(plans, outcomes, strict=True)}
            log_record |= diagnosis(accepted, squares, self.task.spec)
        return closing.state, self.attendance.closed(log_record)

    def _is_diagnosed(self, round: int) -> bool:
        """Return whether the clients of a round are diagnosed: in rounds that are evaluated whatever comes next."""
        how = self.settings
        is_due = round == how.rounds or is_evaluated(round, how.eval_every, how.evaluate_first)
        return how.diagnose and is_due

    def _outcomes(self, round: int, plans: list[Plan], state: State) -> list[Outcome]:
        """Return the outcome of every plan. Clients that did not take part have not trained."""
        expected = {plan.client: self.attendance.expected(round, plan.client) for plan in plans}
        training = [plan for plan in plans if expected[plan.client] in TRAINED]
        for plan in training:
            self._lose(plan.client, round)
        is_diagnosed, check_wire = self._is_diagnosed(round), self.settings.check_wire
        is_bounded = self.settings.aggregation_settings.bound.kind != "off"
        before = values_before(self.algorithm, state) if is_bounded else None
        late, is_apart = {client for client, status in expected.items() if status == "late"}, self.engine.is_apart
        jobs, common = trainings(training, late, is_diagnosed, check_wire, before, is_apart)
        found = {job.client: outcome for job, outcome in zip(jobs, self.engine.do(jobs, round, common), strict=True)}
        for client, outcome in found.items():
            if outcome.has_kept:
                self.evaluator.forget(client)
                self._remember(client, round)
        absent = [Outcome(None, ClientRound(plan.client, plan.settings, "absent")) for plan in plans]
        return [self._judged(found.get(plan.client, without)) for plan, without in zip(plans, absent, strict=True)]

    def _judged(self, outcome: Outcome) -> Outcome:
        """Remove the reply from the outcome if it is late, which may be known only after training."""
        record = self.attendance.judged(outcome.record)
        return outcome._replace(record=record, reply=None if record.status == "late" else outcome.reply)

    def _lose(self, client: int, round: int) -> None:
        """Restore the client's earlier state if its device lost what it kept before it trained in this round."""
        kept = self.attendance.restart(client, round)
        if kept is None:
            return
        self.journal.forget_client_state(client)
        if kept:
            self.journal.save_client_state(client, kept, self._earlier[client, kept])
        self.evaluator.forget(client)

    def _remember(self, client: int, round: int) -> None:
        if self.attendance.is_needed_later(client, round):
            kept = self.journal.load_client_state(client)
            assert kept is not None  # the state has just been saved
            self._earlier[client, round] = kept

"""The rounds of a served run as a state machine: events and the time in, actions out. No I/O, no clock, no chance.

    waiting   until enough clients have enrolled, or one that may be chosen is there
    training  a round is open; it closes when every planned client has been judged, at the quorum, or at the deadline
    storing   a closed round, or an evaluation, is being made durable
    scoring   every enrolled client evaluates; over when all have answered, or at the deadline
    over      every device that asks is told so

A reply's verdict is sent once the reply is durable, and nothing that follows from a closed round before that round is.
A coordinator made from what is durable (Progress) goes on as the one that was lost would have: what had been sent is
sent again, and devices answer a repeated request with the same reply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Literal

from edgefl.server import waiting_text
from edgefl.server.client_links import ClientConnection, Clients
from edgefl.server.device_holdings import DeviceStateTracker
from edgefl.server.enrolment import Arrivals
from edgefl.server.events import (
    Action,
    Admit,
    Close,
    DeviceJoined,
    DeviceLeft,
    DeviceReplaced,
    Enrolment,
    Event,
    MessageReceived,
    Record,
    RecordSaved,
    ReplyJudged,
    RoundClosed,
    RoundEvaluated,
    RoundOpened,
    RunCompleted,
    Save,
    Send,
    ThroughputRecorded,
    WakeAt,
)
from edgefl.server.open_round import OpenRound
from edgefl.server.round_deadline import RoundDeadline
from edgefl.server.round_evaluation import OpenEvaluation
from edgefl.server.round_planner import Planner
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress, Ruling
from edgefl.server.throughput_declarations import ThroughputDeclarations
from edgefl.server.verdict_log import Rulings

from edgefl.errors import RunError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.exchange import NOT_DECLARED, ReplyClaim
from edgefl.methods.rounds.participation import TRAINED
from edgefl.methods.rounds.round_metrics import Tested, accepts_nobody, stuck
from edgefl.methods.task import Task
from edgefl.models.graph import Params
from edgefl.protocol.wire.messages import Evaluated, Finished, Message, ThroughputReport, Trained, Verdict

Phase = Literal["waiting", "training", "storing", "scoring", "over"]
LATE = "the round was closed"


class Coordinator:
    """Decides what a server does next. Make one, call `start` once, then `handle` for everything that happens.

    round  the last closed round; `state` is the method's after it
    phase  see the file's docstring
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        rules: Rules,
        initial: Params,
        progress: Progress,
        common: Callable[[Params], Tested] | None = None,
        accepting: Collection[int] = (),
    ) -> None:
        """`initial`: the model before round 1. `common`: evaluates a model on the test set that no client owns.
        `accepting`: clients whose next loss of what they kept, or of their secret, is accepted, once.
        """
        self._clients = Clients(
            task.clients, progress.capacities, progress.secrets, progress.provenances, progress.declared
        )
        self.algorithm, self.rules, self._common = algorithm, rules, common
        self.round, self.done, self._scored = progress.round, progress.done, progress.scored
        self.state = algorithm.start(task, initial) if progress.state is None else progress.state
        self.phase: Phase = "waiting"
        self._judging: dict[tuple[int, int], str] = {}  # by (round, client), outcomes that are not durable yet
        self._rulings = Rulings(progress.rulings, progress.trained)
        last = {client: self._rulings.last_trained(client) for client in progress.capacities}
        keeps, losses, lives = algorithm.keeps_state, progress.losses, progress.lives
        self._holdings = DeviceStateTracker(self._has_trained, last, losses, lives, accepting, keeps)
        limits, lost = self._clients.capacities, self._holdings.behind
        self.task = replace(task, limits=limits, lost=lost)  # as they are at any time
        self._stored = progress
        self._declarations = ThroughputDeclarations(algorithm.wants_throughput, progress.throughputs)
        self._planner = Planner(self.task, algorithm, rules.seen_s, self._declarations.throughputs.at)
        self._deadlines = RoundDeadline(rules.deadline_s, progress.deadline_s)
        self._evaluation_deadlines = RoundDeadline(rules.evaluation_deadline_s)
        self._open: OpenRound | None = None
        self._evaluation: OpenEvaluation | None = None
        self._opened_at = 0.0
        self._deadline: float | None = None
        self._empty = 0  # rounds in a row, up to the last closed one, that accepted nobody
        self._log_record: dict[str, Any] = {}  # metrics of the last closed round
        self._actions: list[Action] = []
        self._arrivals = Arrivals(
            self._clients, self._holdings, algorithm.name, self._do, self._admit, self._plan_again
        )

    def start(self, now: float) -> list[Action]:
        """Goes on from what is durable."""
        self._planner.start(self.enrolled, now)
        self._go_on(now)
        return self._taken()

    def handle(self, event: Event, now: float) -> list[Action]:
        """What to do about an event, in order. `now`: seconds of a monotonic clock."""
        if isinstance(event, DeviceJoined):
            self._arrivals.join(event, now)
        elif isinstance(event, DeviceLeft):
            self._leave(event.link, now)
        elif isinstance(event, MessageReceived):
            self._receive(event.link, event.message, now)
        elif isinstance(event, RecordSaved):
            self._saved(event.record, now)
        elif self._deadline is not None:
            self._tick(now)
        return self._taken()

    @property
    def enrolled(self) -> AbstractSet[int]:
        """The clients whose enrolment is durable."""
        return self._clients.capacities.keys()

    def awaited(self, now: float) -> str | None:
        """For whom it waits, in one line; None if for nobody. `stage` changes when it waits for something else."""
        left_s = None if self._deadline is None else max(self._deadline - now, 0.0)
        if self.phase == "waiting" and self.round == 0 and len(self.enrolled) < self._wanted:
            return waiting_text.enrolments(self.enrolled, self._wanted, self.task.clients)
        if self.phase == "waiting" and self.rules.seen_s is not None:
            return waiting_text.candidates(self.round + 1, self.rules.seen_s)
        if self._open is not None:
            what, planned, answered = f"round {self._open.number}", self._open.clients, self._open.answers.keys()
            return waiting_text.replies(what, planned, answered, self._connected(), left_s)
        if self._evaluation is not None:
            what, everybody = f"the evaluation after round {self.round}", sorted(self.enrolled)
            return waiting_text.replies(what, everybody, self._evaluation.answers.keys(), self._connected(), left_s)
        return None

    @property
    def stage(self) -> tuple[Phase, int]:
        """The phase, and the last closed round."""
        return self.phase, self.round

    @property
    def _wanted(self) -> int:
        """Enrolments before round 1."""
        return min(self.rules.wait_for, self.task.clients)

    def secret_of(self, client: int) -> bytes | None:
        """What the client's device has to prove in a run without keys; None if it has not enrolled."""
        return self._clients.secrets.get(client)

    # Phases.

    def _go_on(self, now: float) -> None:
        """What follows the last closed round: its evaluation, the end, or the next round."""
        if self._empty >= self.rules.max_empty_rounds and not self.done:
            raise RunError(stuck(self.round, self._empty, self._log_record))
        is_due = self.round > 0 and (self.done or self.round % self.rules.eval_every == 0)
        if is_due and self._scored < self.round:
            self._evaluate(now)
        elif self.done:
            self._finish()
        elif self.round == 0 and len(self._clients.capacities) < self._wanted:
            self.phase = "waiting"
        else:
            self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        number, begun = self.round + 1, self._stored.opened is not None
        if begun:
            plans = self._planner.again(self.state, number, self._stored.candidates.get(number))
        else:
            plans = self._planner.take(self.state, number, self._connected(), now)
        task = self._planner.task
        if not plans and task.candidates is not None:
            self.phase = "waiting"
            return
        self._open = OpenRound(task, self.algorithm, self.state, plans, number, self.rules.values)
        self.phase, self._opened_at = "training", now
        deadline_s = self._deadlines.begin(number, now)
        stored, self._stored = self._stored, Progress()
        if not begun:
            among = None if task.candidates is None else frozenset(task.candidates)
            self._save(RoundOpened(number, self._open.clients, deadline_s, among))
            self._rulings.plan(number, self._open.clients)
        elif stored.opened != self._open.clients:
            raise RunError(f"round {number} was begun with clients {stored.opened}, not {self._open.clients}")
        for judged in stored.answers:
            self._open.judge(judged.client, judged.message, self._declared(judged.client))
        if self._open.is_complete(self.rules.quorum):
            self._close_round(now)
            return
        self._wake_after(deadline_s, now)
        for link in self._clients.admitted():
            self._ask(link, now)

    def _close_round(self, now: float) -> None:
        assert self._open is not None
        self._wake_after(None, now)
        state, log_record = self._open.close(now - self._opened_at, self.rules.aggregation_settings)
        self._empty = self._empty + 1 if accepts_nobody(log_record) else 0
        self.round, self.state, self._open = self._open.number, state, None
        follows = self.round < self.rules.rounds
        self.done = not (follows and self._planner.prepare(self.state, self.round + 1, self._connected(), now))
        self.phase = "storing"
        self._log_record = log_record
        self._save(RoundClosed(self.round, state, log_record, self.done))

    def _evaluate(self, now: float) -> None:
        self._evaluation = OpenEvaluation(self.task, self.algorithm, self.state, self.round)
        self.phase = "scoring"
        self._wake_after(self._evaluation_deadlines.begin(self.round, now), now)
        for link in self._clients.admitted():
            self._ask(link, now)
        self._end_evaluation_if_complete(now)

    def _end_evaluation_if_complete(self, now: float) -> None:
        assert self._evaluation is not None
        if self._clients.capacities.keys() <= self._evaluation.answers.keys():
            self._end_evaluation(now)

    def _end_evaluation(self, now: float) -> None:
        assert self._evaluation is not None
        self._wake_after(None, now)
        bundle, self._evaluation = self._evaluation.bundle(self._common), None
        self.phase, self._scored = "storing", self.round
        self._save(RoundEvaluated(self.round, bundle))

    def _finish(self) -> None:
        self.phase = "over"
        for link in self._clients.admitted():
            self._tell_end(link)
        self._actions.append(RunCompleted())

    def _tick(self, now: float) -> None:
        assert self._deadline is not None
        if now < self._deadline:
            self._actions.append(WakeAt(self._deadline))
        elif self.phase == "training":
            self._close_round(now)
        elif self.phase == "scoring":
            self._end_evaluation(now)

    # Connections.

    def _enrolled(self, record: Enrolment, now: float) -> None:
        self._clients.end_enrolment(record.client, record.capacity, record.examples)
        if record.capacity < 1:
            self._plan_again(record.client)
        self._arrivals.enrolled(record, now)
        if self.phase == "waiting":
            self._go_on(now)

    def _has_trained(self, round: int, client: int) -> bool:
        """Whether the client keeps what it trained in this round, by a ruling that is durable or not."""
        return self._rulings.has_trained(round, client) or self._judging.get((round, client)) in TRAINED

    def _plan_again(self, client: int) -> None:
        """The client's capacity, its pace, or what it has lost, changes the plans for it that it has not answered."""
        self._planner.forget()
        if self._open is not None and client in self._open.clients and client not in self._open.answers:
            self._open.plan_again(client)

    def _leave(self, number: int, now: float) -> None:
        link = self._clients.link(number)
        if link is not None and link.admitted:
            self._planner.hear(link.client, now)
        self._clients.disconnect(number)

    def _connected(self) -> set[int]:
        return {link.client for link in self._clients.admitted()}

    def _admit(self, link: ClientConnection, now: float) -> None:
        link.admitted = True
        self._planner.hear(link.client, now)
        self._actions.append(Admit(link.number, link.client))
        if self.phase == "waiting":
            self._go_on(now)  # which asks it, too
        else:
            self._ask(link, now)

    def _ask(self, link: ClientConnection, now: float) -> None:
        """Sends what this client has to do now, if anything."""
        if self._open is not None and link.client in self._open.clients:
            is_due = link.client not in self._open.answers and link.pending != self._open.number
            if is_due and not self._declarations.holds(link):
                link.asked = self._open.number
                left = None if self._deadline is None else max(self._deadline - now, 0.0)
                self._deadlines.ask(self._open.number, link.client)
                self._send(link, self._open.request(link.client, left))
        elif self._evaluation is not None and link.client not in self._evaluation.answers:
            self._evaluation_deadlines.ask(self._evaluation.round, link.client)
            self._send(link, self._evaluation.request)
        elif self.phase == "over":
            self._tell_end(link)

    def _tell_end(self, link: ClientConnection) -> None:
        """A device that still owes a reply is told after the verdict on it."""
        if not link.pending:
            self._send(link, Finished(f"the run ended after round {self.round}"))

    # Messages.

    def _receive(self, number: int, message: Trained | Evaluated | ThroughputReport, now: float) -> None:
        link = self._clients.link(number)
        if link is None or not link.admitted:
            return  # what a superseded connection still sends is sent again on the new one
        if isinstance(message, Trained):
            self._take_reply(link, message, now)
        elif isinstance(message, ThroughputReport):
            self._take_throughput(link, message, now)
        elif self._evaluation is not None and message.round == self._evaluation.round:
            self._take_scores(link, self._evaluation, message, now)

    def _take_reply(self, link: ClientConnection, message: Trained, now: float) -> None:
        key = message.round, link.client
        if not self._rulings.is_planned(*key):
            reason = f"reply of client {link.client} for round {message.round}; it was not planned there"
            self._actions.append(Close(link.number, reason))
            self._clients.disconnect(link.number)
        elif (ruling := self._rulings.of(*key)) is not None:
            self._rule(link, message.round, ruling)
        elif key not in self._judging:
            self._deadlines.heard(message.round, link.client, now)
            self._judge(link.client, message, now)

    def _take_throughput(self, link: ClientConnection, message: ThroughputReport, now: float) -> None:
        """Not before it is durable is the client asked by it."""
        is_free = self._open is not None and self._is_free(self._open, link)
        since = self.round + (1 if self._open is None or is_free else 2)
        record = self._declarations.hear(link, message, since, self._clients.declared.get(link.client, 0))
        if record is None:
            self._ask_if_held(link, now)
            return
        self._save(record)
        self._planner.forget()
        if is_free:
            self._plan_again(link.client)

    def _is_free(self, open_round: OpenRound, link: ClientConnection) -> bool:
        """Whether the client is in the open round, and nothing of it has been asked or is on its way."""
        number = open_round.number
        is_asked = link.asked == number or link.pending == number or link.client in open_round.answers
        return link.client in open_round.clients and not is_asked

    def _ask_if_held(self, link: ClientConnection, now: float) -> None:
        if self._open is not None and self._is_free(self._open, link):
            self._ask(link, now)

    def _judge(self, client: int, message: Trained, now: float) -> None:
        is_open = self._open is not None and self._open.number == message.round
        late = ReplyJudged(message.round, client, "late", LATE, message)
        judged = late
        if self._open is not None and is_open:
            judged = self._open.judge(client, message, self._declared(client))
        self._judging[message.round, client] = judged.outcome
        self._holdings.judged(client, message.round, judged.outcome)
        self._save(judged)
        if self._open is not None and is_open and self._open.is_complete(self.rules.quorum):
            self._close_round(now)

    def _declared(self, client: int) -> ReplyClaim:
        """What the client's replies must claim."""
        examples = self._clients.declared.get(client)
        return NOT_DECLARED if examples is None else self.rules.aggregation_settings.declared(self.algorithm, examples)

    def _take_scores(self, link: ClientConnection, evaluation: OpenEvaluation, message: Evaluated, now: float) -> None:
        if link.client in evaluation.answers:
            return
        self._evaluation_deadlines.heard(message.round, link.client, now)
        problem = evaluation.answer(link.client, message)
        if problem is not None:
            self._actions.append(Close(link.number, problem))
            self._clients.disconnect(link.number)
        self._end_evaluation_if_complete(now)

    def _rule(self, link: ClientConnection, round: int, ruling: Ruling) -> None:
        self._send(link, Verdict(round, *ruling))
        if link.pending:
            link.pending = 0
            if self.phase == "over":
                self._tell_end(link)

    # The store.

    def _saved(self, record: Record, now: float) -> None:
        if isinstance(record, Enrolment):
            self._enrolled(record, now)
        elif isinstance(record, DeviceReplaced):
            self._arrivals.begun(record, now)
        elif isinstance(record, ThroughputRecorded):
            self._declarations.saved(record)
            link = self._clients.link_of(record.client)
            if link is not None and link.admitted:
                self._ask_if_held(link, now)
        elif isinstance(record, ReplyJudged):
            ruling = Ruling(record.outcome, record.reason)
            self._rulings.rule(record.round, record.client, ruling)
            self._judging.pop((record.round, record.client), None)
            link = self._clients.link_of(record.client)
            if link is not None and link.admitted:
                self._rule(link, record.round, ruling)
        elif isinstance(record, RoundClosed | RoundEvaluated):
            self._go_on(now)

    def _save(self, record: Record) -> None:
        self._actions.append(Save(record))

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    def _send(self, link: ClientConnection, message: Message) -> None:
        self._actions.append(Send(link.number, message))

    def _wake_after(self, seconds: float | None, now: float) -> None:
        before, self._deadline = self._deadline, None if seconds is None else now + seconds
        if before != self._deadline:
            self._actions.append(WakeAt(self._deadline))

    def _taken(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

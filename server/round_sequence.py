"""The rounds and evaluations of a served run: when each begins and ends, and what its clients are asked.

    waiting   until enough clients have enrolled, or a client that may be chosen is there
    training  a round is open. It closes when every planned client has been judged, at the quorum, or at the deadline
    storing   a closed round, or an evaluation, is being made durable
    scoring   every enrolled client evaluates. The evaluation ends when all have answered, or at the deadline
    over      every device that asks is told that the run is over

Nothing that follows from a closed round is decided before that round is durable. device_sessions.py decides which
device a connection belongs to, and what its messages mean. The module has no I/O, no clock and no randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Literal

from edgefl.errors import RunError
from edgefl.experiment.evaluation_rounds import is_evaluated
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.exchange import NOT_DECLARED, ReplyClaim
from edgefl.methods.rounds.round_metrics import Tested, accepts_nobody, stuck
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.protocol.wire.messages import Evaluated, GroupReady, Trained
from edgefl.protocol.wire.printable import printable
from edgefl.server import waiting_text
from edgefl.server.action_queue import ActionQueue
from edgefl.server.attendance import Attendance
from edgefl.server.client_links import Clients
from edgefl.server.client_requests import ClientRequests
from edgefl.server.client_tags import ClientTags
from edgefl.server.events import (
    ReplyJudged,
    RoundClosed,
    RoundEvaluated,
    RoundOpened,
    RunCompleted,
    RunDrained,
    Say,
    WakeAt,
)
from edgefl.server.group_steps import GroupSteps
from edgefl.server.open_round import OpenRound, as_trained
from edgefl.server.operator_command import DEADLINE, EVALUATION_DEADLINE
from edgefl.server.refusal_register import RefusalRegister
from edgefl.server.round_deadline import RoundDeadline
from edgefl.server.round_evaluation import OpenEvaluation
from edgefl.server.round_opening import RoundOpening
from edgefl.server.round_rules import Rules
from edgefl.server.run_control import RunControl
from edgefl.server.run_progress import Progress
from edgefl.server.throughput_declarations import ThroughputDeclarations
from edgefl.server.verdict_log import Rulings
from edgefl.system.log_lines import Alert

Phase = Literal["waiting", "training", "storing", "scoring", "over"]
LATE = "the round was closed"


class RoundSequence:
    """One round after another, with the evaluations between them, until the run is over.

    round       number of the last closed round, 0 before round 1 is closed
    state       the method's state after the last closed round
    done        whether no round follows the last closed round
    phase       see the file's docstring
    open        the round that clients train for at this time. None outside the phase "training"
    planner     planner of the next round
    evaluation  the evaluation that clients answer at this time. None outside the phase "scoring"
    is_recorded  whether the beginning of the open round is durable. Nobody is asked to train before
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        control: RunControl,
        tags: ClientTags,
        state: State,
        progress: Progress,
        clients: Clients,
        rulings: Rulings,
        declarations: ThroughputDeclarations,
        queue: ActionQueue,
        refusals: RefusalRegister,
        common: Callable[[Params], Tested] | None = None,
        initial: State | None = None,
    ) -> None:
        """Make the sequence. `state` is the method's state after the last closed round of `progress`, and `initial` its
        state before round 1. `common` evaluates a model on the test set that no client owns.
        """
        self._task, self._algorithm, self._control, self._common = task, algorithm, control, common
        self._clients, self._rulings, self._declarations, self._queue = clients, rulings, declarations, queue
        self._refusals = refusals
        self.round, self.done, self._scored = progress.round, progress.done, progress.scored
        self.state, self._initial = state, state if initial is None else initial
        self.phase: Phase = "waiting"
        rules = control.rules
        self.attendance = Attendance(clients, refusals, rules.wait_for)
        self._opening = RoundOpening(task, algorithm, control, tags, progress, rulings, declarations)
        self.planner, self._tasks = self._opening.planner, self._opening.tasks
        self._deadlines = RoundDeadline(rules.deadline_s, progress.deadline_s)
        self._evaluation_deadlines = RoundDeadline(rules.evaluation_deadline_s)
        self.open: OpenRound | None = None
        self.evaluation: OpenEvaluation | None = None
        self._opened_at = 0.0
        self._deadline: float | None = None
        deadlines = self._deadlines, self._evaluation_deadlines
        self.requests = ClientRequests(self, clients, declarations, deadlines, queue, rules.come_again_s)
        self.groups = GroupSteps(clients, queue, self.requests.ask, self._wake_after, self._close)
        self.is_recorded, self._empty = True, 0  # `_empty`: rounds in a row, up to the last closed one, without a reply
        self._log_record: dict[str, Any] = {}  # metrics of the last closed round

    def start(self, now: float) -> None:
        """Go on from the last closed round of `progress`, or from its open round."""
        self._opening.start(self._initial, self._clients.capacities.keys(), self.expected_claim, now)
        self.go_on(now)

    @property
    def refusing(self) -> AbstractSet[int]:
        """The clients that are absent, as their devices have refused or were refused."""
        return self._refusals.clients

    @property
    def _rules(self) -> Rules:
        return self._control.rules

    @property
    def is_over(self) -> bool:
        """True if the run is over, of which every device is told."""
        return self.phase == "over"

    @property
    def opened_at(self) -> float | None:
        """The time at which the open round or evaluation was opened, or None if neither is open."""
        return None if self.open is None and self.evaluation is None else self._opened_at

    def left_s(self, now: float) -> float | None:
        """Return the seconds until the deadline of the open round or evaluation, or None if there is no deadline."""
        return None if self._deadline is None else max(self._deadline - now, 0.0)

    # Phases.

    def follow_commands(self, setting: str, now: float) -> None:
        """Follow what the operator has changed: a deadline of this name at once, all else from the next round on."""
        self.planner.forget()
        rules, phase = self._rules, self.phase
        if setting == DEADLINE:
            limit_s = self._deadlines.follow(rules.deadline_s, self.round + 1)
        elif setting == EVALUATION_DEADLINE:
            limit_s = self._evaluation_deadlines.follow(rules.evaluation_deadline_s, self.round)
        if (setting, phase) in (
            (DEADLINE, "training"),
            (EVALUATION_DEADLINE, "scoring"),
        ) and not self.groups.is_stepping:
            self._wake_after(None if limit_s is None else self._opened_at + limit_s - now, now)
        if self.phase == "waiting":
            self.go_on(now)

    def go_on(self, now: float) -> None:
        """Go on after the last closed round: with its evaluation, the end, or the next round."""
        if self._empty >= self._rules.max_empty_rounds and not self.done:
            raise RunError(stuck(self.round, self._empty, self._log_record))
        is_early = self.round == 0 and self._opening.begun is None and self.attendance.is_early
        self.done |= self._control.is_stopping and self._opening.begun is None
        is_scored = self.done or is_evaluated(self.round, self._rules.eval_every, self._rules.evaluate_first)
        if self._rules.secure is not None:  # no client is asked for its scores
            is_scored &= self._common is not None and MODEL in self.state.arrays
        if is_scored and self._scored < self.round:
            self._evaluate(now)
        elif self.done:
            self._finish(now)
        elif self._control.is_draining:
            self.phase = "waiting"
            self._queue.add(RunDrained())
        elif is_early or self.attendance.is_refused_by_all or (self._control.is_paused and not self._opening.begun):
            self.phase = "waiting"
        else:
            self._begin(now)

    def tick(self, now: float) -> None:
        """Close the open round or evaluation if its deadline has come."""
        if self._deadline is None:
            return
        if now < self._deadline:
            self._queue.add(WakeAt(self._deadline))
        elif self.groups.is_stepping:
            self.groups.expire(now)
        elif self.phase == "training":
            self._end_training(now)
        elif self.phase == "scoring":
            self._end_evaluation(now)

    def _begin(self, now: float) -> None:
        """Open the next round and ask its clients, or wait if nobody is there who may be chosen."""
        number, is_new = self.round + 1, self._opening.begun is None
        planned = self._opening.next(self.state, number, self._clients.connected(), now, self.refusing)
        if planned is None:
            self.phase = "waiting"
            return
        self.phase, self._opened_at = "training", now
        deadline_s = self._deadlines.begin(number, now)
        self.is_recorded = not is_new
        if is_new:
            self._queue.save(RoundOpened(number, planned.clients, deadline_s, self._opening.candidates))
            self._rulings.plan(number, planned.clients)
        self.open = self._opening.open(planned, self.expected_claim)
        if self.open.is_complete(self._rules.quorum, self.refusing):
            self._end_training(now)
            return
        self._wake_after(deadline_s, now)
        if self.is_recorded:
            self.requests.ask_everybody(now)

    def opening_saved(self, round: int, now: float) -> None:
        """Ask the clients of the round, whose beginning is durable, unless it is closed already."""
        if self.open is not None and self.open.number == round:
            self.is_recorded = True
            self.requests.ask_everybody(now)

    def _end_training(self, now: float) -> None:
        """Close the open round. With secure aggregation, its groups are opened first."""
        assert self.open is not None
        if not self.open.needs_steps:
            self._close(now)
        elif not self.groups.is_stepping:
            self.groups.begin(self.open, now)  # type: ignore[arg-type]  # only a SecureRound needs steps

    def _close(self, now: float) -> None:
        assert self.open is not None
        self._wake_after(None, now)
        closed, self.round = self.open, self.open.number
        state, log_record = closed.close(now - self._opened_at, self._rules.aggregation_settings)
        self._empty = self._empty + 1 if accepts_nobody(log_record) else 0
        self.state, self.open = state, None
        now_there = self._clients.connected(), now, self.refusing
        is_last = self.round >= self._rules.rounds or self._control.is_stopping
        self.done = is_last or not self._opening.follows(state, self.round + 1, *now_there)
        self.phase = "storing"
        self._log_record = log_record
        self._queue.save(RoundClosed(self.round, state, log_record, self.done))
        if missing := closed.missing(self.refusing):
            self._queue.add(Say(Alert(waiting_text.missing(self.round, missing), "absent", *missing)))

    def _evaluate(self, now: float) -> None:
        self.evaluation = OpenEvaluation(self._task, self._algorithm, self.state, self.round)
        self.phase, self._opened_at = "scoring", now
        if self._rules.secure is not None:
            self._end_evaluation(now)
            return
        self._wake_after(self._evaluation_deadlines.begin(self.round, now), now)
        self.requests.ask_everybody(now)
        self.end_evaluation_if_complete(now)

    def _end_evaluation(self, now: float) -> None:
        assert self.evaluation is not None
        self._wake_after(None, now)
        evaluated = RoundEvaluated(self.round, self.evaluation.bundle(self._common), self.evaluation.adaptation())
        self.evaluation = None
        self.phase, self._scored = "storing", self.round
        self._queue.save(evaluated)

    def _finish(self, now: float) -> None:
        self.phase = "over"
        self.requests.ask_everybody(now)
        self._queue.add(RunCompleted())

    def _wake_after(self, seconds: float | None, now: float) -> None:
        """Set the deadline of the open round or evaluation, in seconds from now on, or remove it with None."""
        before, self._deadline = self._deadline, None if seconds is None else now + seconds
        if before != self._deadline:
            self._queue.add(WakeAt(self._deadline))

    # Messages of clients.

    def plan_again(self, client: int) -> None:
        """Plan again for a client whose capacity, speed or loss has changed, where it has not answered the plan."""
        self.planner.forget()
        current = self._current
        if current is not None and client in current.clients and current.may_plan_again(client):
            current.plan_again(client)

    def judge(self, client: int, message: Trained | GroupReady, now: float) -> ReplyJudged | None:
        """Judge a planned client's reply: by the open round, or as "late" if the reply is for another round.

        Returns  None if the verdict follows later, from the client's group
        """
        self._deadlines.heard(message.round, client, now)
        current = self._current
        if current is None or not current.awaits(client, message.round):
            return ReplyJudged(message.round, client, "late", LATE, as_trained(message))
        return current.judge(client, message, self.expected_claim(client))

    @property
    def _current(self) -> OpenRound | None:
        """The round that takes replies in: the open round, or in an asynchronous run the next one, too."""
        return self.open if self._tasks is None or self.done else self._tasks

    def close_if_complete(self, number: int, now: float) -> None:
        """Close the open round if it has all replies that it needs, after a reply for the round with this number."""
        if self.open is not None and (self.open.number == number or self._tasks is not None):
            self._end_training_if_complete(now)

    def _end_training_if_complete(self, now: float) -> None:
        if self.open is not None and self.open.is_complete(self._rules.quorum, self.refusing):
            self._end_training(now)

    def refusal_saved(self, now: float) -> None:
        """Go on after it is durable that a client's device takes no part, or has come back. Nothing waits for a device
        that takes no part.

        Raises  RunError if nobody is left who takes part.
        """
        self.planner.forget()
        if self.phase in ("waiting", "training") and self._refusals.is_final and self.attendance.is_refused_by_all:
            client, reason = min(self._refusals.reasons.items())
            raise RunError(f"no device takes part: {len(self.refusing)} refused; client {client}: {printable(reason)}")
        if self.phase == "waiting":
            self.go_on(now)
        elif self.phase == "scoring":
            self.end_evaluation_if_complete(now)
        else:
            self._end_training_if_complete(now)

    def expected_claim(self, client: int) -> ReplyClaim:
        """Return the claims that the client's replies must make."""
        examples = self._clients.declared.get(client)
        if examples is None:
            return NOT_DECLARED
        return self._rules.aggregation_settings.declared(self._algorithm, examples, self._task.graph)

    def score(self, client: int, message: Evaluated, now: float) -> str | None:
        """Take the first answer of a client to the open evaluation.

        Returns  what is wrong with the answer, in one sentence, or None
        """
        assert self.evaluation is not None
        self._evaluation_deadlines.heard(message.round, client, now)
        return self.evaluation.answer(client, message)

    def end_evaluation_if_complete(self, now: float) -> None:
        """End the open evaluation if every enrolled client has answered."""
        assert self.evaluation is not None
        enrolled, answers = self._clients.capacities.keys(), self.evaluation.answers.keys()
        if len(enrolled) <= len(answers) + len(self.refusing) and enrolled <= answers | self.refusing:
            self._end_evaluation(now)

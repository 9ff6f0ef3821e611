"""The coordinator of a run as a state machine: events and the time come in, actions go out. It has no I/O and no clock.

A coordinator has two parts: the rounds (round_sequence.py) and the devices (device_sessions.py). Both add their actions
to one queue. A coordinator can be made from the durable state (Progress), and goes on as the lost one would have. It
sends again what had been sent, and devices answer a repeated request with the same reply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from edgefl.experiment.sample_minimum import too_small
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.round_metrics import Tested
from edgefl.methods.task import State, Task
from edgefl.models.graph import Params
from edgefl.server import waiting_text
from edgefl.server.action_queue import ActionQueue
from edgefl.server.client_links import Clients
from edgefl.server.client_tags import ClientTags
from edgefl.server.device_activity import activities, activity_of_others
from edgefl.server.device_holdings import DeviceStateTracker
from edgefl.server.device_sessions import DeviceSessions
from edgefl.server.events import (
    Action,
    DeviceJoined,
    DeviceLeft,
    DeviceRefusal,
    DeviceRefused,
    DeviceReplaced,
    Enrolment,
    Event,
    GroupEvent,
    KeyChanged,
    MessageReceived,
    Record,
    RecordSaved,
    ReplyJudged,
    RoundClosed,
    RoundEvaluated,
    RoundOpened,
    ThroughputRecorded,
)
from edgefl.server.member_records import ClientRemoved, CommandGiven, OperatorCommand
from edgefl.server.operator_desk import OperatorDesk
from edgefl.server.refusal_register import RefusalRegister
from edgefl.server.round_rules import Rules
from edgefl.server.round_sequence import Phase, RoundSequence
from edgefl.server.run_control import RunControl
from edgefl.server.run_progress import Progress
from edgefl.server.throughput_declarations import ThroughputDeclarations
from edgefl.server.verdict_log import Rulings


class Coordinator:
    """A state machine that decides what a server does next. Call `start` once, then `handle` for every event.

    task    the method's task, with the present capacities of clients and the clients that have lost what they kept
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
        """Make the coordinator of a run.

        initial    model before round 1
        common     evaluates a model on the test set that no client owns
        accepting  clients whose next loss of what they kept, or of their secret, is accepted, once
        """
        self._queue = ActionQueue()
        self._control = control = RunControl(rules, progress.commands)
        self._clients = clients = _clients(task.clients, progress, rules)
        before = algorithm.start(task, initial)
        state = before if progress.state is None else progress.state
        rulings = Rulings(progress.rulings, progress.trained)
        holdings = _holdings(rulings, progress, accepting, algorithm.remembers)
        self.task = replace(task, limits=clients.capacities, lost=holdings.behind)
        declarations = ThroughputDeclarations(algorithm.wants_throughput, progress.throughputs)
        refusals = RefusalRegister(progress.refusals, progress.removed, self._queue)
        tags = ClientTags(progress.tags, progress.provenances)
        shared = clients, rulings, declarations, self._queue, refusals
        self._rounds = RoundSequence(self.task, algorithm, control, tags, state, progress, *shared, common, before)
        small = partial(too_small, algorithm, self.task)
        self._devices = DeviceSessions(algorithm.name, self._rounds, holdings, *shared, tags, small)
        seen = self._rounds, clients, refusals, tags, self._queue, self._devices.dismiss
        self._operator = OperatorDesk(algorithm, control, *seen, *OperatorDesk.earlier(progress))

    def start(self, now: float) -> list[Action]:
        """Go on from the durable state."""
        self._rounds.start(now)
        return self._queue.taken()

    def handle(self, event: Event, now: float) -> list[Action]:
        """Return the actions that follow from an event, in order. `now` is in seconds of a monotonic clock."""
        if isinstance(event, DeviceJoined):
            self._devices.join(event, now)
        elif isinstance(event, DeviceLeft):
            self._devices.leave(event.link, now)
        elif isinstance(event, DeviceRefused):
            self._devices.refused(event.link, event.reason)
        elif isinstance(event, KeyChanged):
            self._devices.key_changed(event)
        elif isinstance(event, CommandGiven):
            self._operator.take(event, now)
        elif isinstance(event, MessageReceived):
            self._devices.receive(event.link, event.message, now)
        elif isinstance(event, RecordSaved):
            self._saved(event.record, now)
        else:
            self._rounds.tick(now)
        return self._queue.taken()

    def _saved(self, record: Record, now: float) -> None:
        if isinstance(record, Enrolment):
            self._devices.enrolled(record, now)
        elif isinstance(record, DeviceReplaced):
            self._devices.replaced(record, now)
        elif isinstance(record, DeviceRefusal | ClientRemoved):
            self._devices.refusal_saved(record)
            self._rounds.refusal_saved(now)
        elif isinstance(record, OperatorCommand):
            self._operator.saved(record, now)
        elif isinstance(record, ThroughputRecorded):
            self._devices.throughput_saved(record, now)
        elif isinstance(record, ReplyJudged):
            self._devices.ruled(record)
        elif isinstance(record, GroupEvent):
            self._rounds.groups.saved(record, now)
        elif isinstance(record, RoundOpened):
            self._rounds.opening_saved(record.round, now)
        elif isinstance(record, RoundClosed | RoundEvaluated):
            self._rounds.go_on(now)

    @property
    def enrolled(self) -> AbstractSet[int]:
        """The clients whose enrolment is durable."""
        return self._clients.capacities.keys()

    def secret_of(self, client: int) -> bytes | None:
        """Return the secret that the client's device has to prove in a run without keys, or None if it has not
        enrolled.
        """
        return self._clients.secrets.get(client)

    # The progress of the run.

    @property
    def phase(self) -> Phase:
        """The present phase of the run, see round_sequence.py."""
        return self._rounds.phase

    @property
    def round(self) -> int:
        """The number of the last closed round."""
        return self._rounds.round

    @property
    def state(self) -> State:
        """The method's state after the last closed round."""
        return self._rounds.state

    @property
    def done(self) -> bool:
        """True if no round follows the last closed round."""
        return self._rounds.done

    @property
    def stage(self) -> tuple[Phase, int]:
        """The phase, and the number of the last closed round."""
        return self.phase, self.round

    @property
    def opened_at(self) -> float | None:
        """The time at which the open round or evaluation was opened, or None if neither is open."""
        return self._rounds.opened_at

    def left_s(self, now: float) -> float | None:
        """Return the seconds until the deadline of the open round or evaluation, or None if there is no deadline."""
        return self._rounds.left_s(now)

    def activities(self, more: Iterable[int]) -> dict[int, str]:
        """Return by client what its device does, for `more` and for clients that do something (device_activity.py)."""
        return activities(self._clients, self._rounds, more)

    @property
    def activity_of_others(self) -> str:
        """The activity of the enrolled clients that `activities` leaves out."""
        return activity_of_others(self._rounds)

    def awaited(self, now: float) -> str | None:
        """Return the clients that the server waits for, in one line of text, or None if it waits for nobody.

        `stage` changes when the server waits for something else.
        """
        if self.phase == "waiting" and self.round == 0 and len(self.enrolled) < self._rounds.attendance.wanted:
            return waiting_text.enrolments(self.enrolled, self._rounds.attendance.wanted, self.task.clients)
        if self.phase == "waiting" and self._rounds.refusing >= self.enrolled:
            return waiting_text.refusals(self.round + 1, self._rounds.refusing)
        if self.phase == "waiting" and self._control.is_paused:
            return waiting_text.paused(self.round + 1)
        if self.phase == "waiting" and self._control.rules.choice is not None:
            return waiting_text.condition(self.round + 1, self._control.rules.choice.text)
        if self.phase == "waiting" and self._control.rules.seen_s is not None:
            return waiting_text.candidates(self.round + 1, self._control.rules.seen_s)
        connected, left_s, out = self._clients.connected(), self._rounds.left_s(now), self._rounds.refusing
        if (opened := self._rounds.open) is not None:
            planned = [client for client in opened.clients if client not in out]
            return waiting_text.replies(f"round {opened.number}", planned, opened.replied, connected, left_s)
        if (evaluation := self._rounds.evaluation) is not None:
            what, everybody = f"the evaluation after round {self.round}", sorted(self.enrolled - out)
            return waiting_text.replies(what, everybody, evaluation.answers.keys(), connected, left_s)
        return None


def _clients(count: int, progress: Progress, rules: Rules) -> Clients:
    """Return the clients that have enrolled so far."""
    known = progress.capacities, progress.secrets, progress.provenances, progress.declared
    return Clients(count, *known, rules.is_open)


def _holdings(rulings: Rulings, progress: Progress, accepting: Collection[int], keeps: bool) -> DeviceStateTracker:
    """Return the states that the clients' devices hold, as far as the server knows."""
    last = {client: rulings.last_trained(client) for client in progress.capacities}
    return DeviceStateTracker(rulings.keeps_trained, last, progress.losses, progress.lives, accepting, keeps)

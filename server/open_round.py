"""One open round: the clients that were asked, their replies, and the sum of the replies.

A round's plans are a function of the task, the method's state before the round, and its number. So a restarted server
makes the same plans again. The module knows no connections and no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.answer import Answer
from edgefl.methods.rounds.exchange import NOT_DECLARED, ReplyClaim, read_answer, sizes, train_message
from edgefl.methods.rounds.round_closing import AggregationSettings, close
from edgefl.methods.rounds.round_metrics import ClientRound, round_metrics
from edgefl.methods.task import State, Task
from edgefl.protocol.wire.messages import LONGEST_TEXT, GroupReady, Message, Train, Trained
from edgefl.server.events import GroupEvent, ReplyJudged


class OpenRound:
    """A round between its plans and its result.

    number   number of the round
    planned  planned clients, ascending
    clients  clients whose replies the round takes in, ascending: the planned ones
    answers  messages read so far, by client
    """

    def __init__(self, task: Task, algorithm: Algorithm, state: State, plans: list[Plan], number: int, values: str):
        self.number = number
        self._task, self._algorithm, self._state, self._values = task, algorithm, state, values
        self._plans = {plan.client: plan for plan in plans}
        self.clients = self.planned = tuple(sorted(self._plans))
        self._requests: dict[int, Train] = {}
        self._encoded: dict[tuple[int, int], tuple[object, dict[str, bytes]]] = {}  # shared parts of plans
        self.answers: dict[int, tuple[Trained, Answer]] = {}

    @property
    def state(self) -> State:
        """The state of the method from which the plans were made."""
        return self._state

    def plan(self, client: int) -> Plan:
        """Return the plan of a planned client."""
        return self._plans[client]

    def round_of(self, client: int) -> int:
        """Return the round that planned a client of `clients`."""
        return self.number

    def awaits(self, client: int, round: int) -> bool:
        """Return whether the reply of a client that was planned in a round is judged here."""
        return self.number == round

    def request(self, client: int, deadline_s: float | None) -> Train:
        """Return the message that asks this client to train. `deadline_s` is in seconds from now, or None."""
        if client not in self._requests:
            plan = self._plans[client]
            key = id(plan.payload), id(plan.held)
            _, known = self._encoded.get(key, (None, None))
            message = train_message(plan, self._task.spec, self._values, known)
            encoded = {name: message.payload[name] for name in plan.payload}
            self._encoded[key] = (plan.payload, plan.held), encoded
            self._requests[client] = message
        kept = self._requests[client]
        return Train(kept.round, kept.selection, kept.payload, kept.settings, deadline_s, kept.expects)

    def message_for(self, client: int, is_pending: bool, left_s: float | None) -> Message | None:
        """Return what a planned client has to be asked at this time, or None.

        is_pending  whether the client owes a reply that it has trained already
        left_s      seconds from now until the deadline, or None
        """
        return None if client in self.answers or is_pending else self.request(client, left_s)

    @property
    def replied(self) -> AbstractSet[int]:
        """The clients that owe nothing at this time."""
        return self.answers.keys()

    def may_plan_again(self, client: int) -> bool:
        """Return whether a client's plan may change, because it has not been answered."""
        return client not in self.answers

    def plan_again(self, client: int) -> None:
        """Plan again for a client whose capacity, throughput or loss has become known to the task."""
        self._plans[client] = self._algorithm.replan(self._task, self._state, self._plans[client])
        self._requests.pop(client, None)

    @property
    def needs_steps(self) -> bool:
        """Return whether the round has groups that have to be opened before it can be closed."""
        return False

    def restore(
        self, judged: Iterable[ReplyJudged], events: Iterable[GroupEvent], claim: Callable[[int], ReplyClaim]
    ) -> None:
        """Take in what an earlier process has saved. `claim` returns the claims that a client's reply must make."""
        for each in judged:
            self.judge(each.client, each.message, claim(each.client))

    def judge(
        self, client: int, message: Trained | GroupReady, declared: ReplyClaim = NOT_DECLARED
    ) -> ReplyJudged | None:
        """Read a planned client's reply, and accept or refuse it. One reply of a client is judged.

        Returns  None if the verdict follows later, from the client's group
        """
        message = as_trained(message)
        answer = read_answer(message, self._plans[client], self._task.spec, declared)
        self.answers[client] = message, answer
        outcome, reason = ("accepted", "") if answer.refusal is None else ("refused", answer.refusal)
        return ReplyJudged(self.number, client, outcome, reason[:LONGEST_TEXT], message)  # type: ignore[arg-type]

    def is_complete(self, quorum: int | None, absent: AbstractSet[int] = frozenset()) -> bool:
        """Return whether each planned client but the `absent` is judged, or `quorum` authorised ones are accepted."""
        replied = [client for client, (_, answer) in self.answers.items() if answer.reply is not None]
        accepted = sum(self._plans[client].authorised for client in replied)
        return self.answers.keys() | absent >= self._plans.keys() or (quorum is not None and accepted >= quorum)

    def missing(self, refusing: AbstractSet[int]) -> list[int]:
        """Return the planned clients that have not answered, unless their devices have refused."""
        return [client for client in self.clients if client not in self.answers and client not in refusing]

    def forget(self, client: int) -> None:
        """Forget a client whose part in the round has ended, where the round goes on for others."""
        for kept in (self._plans, self._requests, self.answers):
            kept.pop(client, None)

    def close(self, seconds: float, aggregation_settings: AggregationSettings) -> tuple[State, dict[str, Any]]:
        """Return the state after the round and its metrics."""
        replies = {client: answer.reply for client, (_, answer) in self.answers.items()}
        accepted = [(self._plans[client], reply) for client, reply in replies.items() if reply is not None]
        closing = close(self._task, self._algorithm, self._state, accepted, self.number, aggregation_settings)
        return closing.state, round_metrics(self.number, map(self.record, self.clients), closing, seconds)

    def record(self, client: int) -> ClientRound:
        """Return the record of a planned client for the metrics, before the round is closed."""
        plan = self._plans[client]
        if client in self.answers:
            message, answer = self.answers[client]
            request = self.request(client, None)
            return ClientRound.answered(plan, sizes(request.payload, request.selection), message, answer)
        absent = ClientRound(client, plan.settings, "absent")
        sent = self._requests.get(client)
        return absent if sent is None else replace(absent, down=sizes(sent.payload, sent.selection))


def as_trained(message: Trained | GroupReady) -> Trained:
    """Return a device's word that it has trained, as a reply without values."""
    if isinstance(message, Trained):
        return message
    seconds = message.seconds if 0 <= message.seconds < math.inf else 0.0
    return Trained(message.round, {}, message.selection_hash, message.examples, message.steps, "on", {}, seconds)

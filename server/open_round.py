"""One open round: the clients that were asked, their replies, and the sum of the replies.

A round's plans are a function of the task, the method's state before the round, and its number. So a restarted server
makes the same plans again. The module knows no connections and no time.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.exchange import NOT_DECLARED, Answer, ReplyClaim, read_answer, sizes, train_message
from edgefl.methods.rounds.round_closing import AggregationSettings, close
from edgefl.methods.rounds.round_metrics import ClientRound, round_metrics
from edgefl.methods.task import State, Task
from edgefl.protocol.wire.messages import LONGEST_TEXT, Train, Trained
from edgefl.server.events import ReplyJudged


class OpenRound:
    """A round between its plans and its result.

    number   number of the round
    clients  planned clients, ascending
    answers  messages read so far, by client
    """

    def __init__(self, task: Task, algorithm: Algorithm, state: State, plans: list[Plan], number: int, values: str):
        self.number = number
        self._task, self._algorithm, self._state, self._values = task, algorithm, state, values
        self._plans = {plan.client: plan for plan in plans}
        self.clients = tuple(sorted(self._plans))
        self._requests: dict[int, Train] = {}
        self._encoded: dict[tuple[int, int], tuple[object, dict[str, bytes]]] = {}  # shared parts of plans
        self.answers: dict[int, tuple[Trained, Answer]] = {}

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

    def plan_again(self, client: int) -> None:
        """Plan again for a client whose capacity, throughput or loss has become known to the task."""
        self._plans[client] = self._algorithm.replan(self._task, self._state, self._plans[client])
        self._requests.pop(client, None)

    def judge(self, client: int, message: Trained, declared: ReplyClaim = NOT_DECLARED) -> ReplyJudged:
        """Read a planned client's reply, and accept or refuse it. One reply of a client is judged."""
        answer = read_answer(message, self._plans[client], self._task.spec, declared)
        self.answers[client] = message, answer
        outcome, reason = ("accepted", "") if answer.refusal is None else ("refused", answer.refusal)
        return ReplyJudged(self.number, client, outcome, reason[:LONGEST_TEXT], message)  # type: ignore[arg-type]

    def is_complete(self, quorum: int | None, absent: AbstractSet[int] = frozenset()) -> bool:
        """Return whether each planned client but the `absent` is judged, or `quorum` authorised ones are accepted."""
        replied = [client for client, (_, answer) in self.answers.items() if answer.reply is not None]
        accepted = sum(self._plans[client].authorised for client in replied)
        return self.answers.keys() | absent >= self._plans.keys() or (quorum is not None and accepted >= quorum)

    def close(self, seconds: float, aggregation_settings: AggregationSettings) -> tuple[State, dict[str, Any]]:
        """Return the state after the round and its metrics."""
        replies = {client: answer.reply for client, (_, answer) in self.answers.items()}
        accepted = [(self._plans[client], reply) for client, reply in replies.items() if reply is not None]
        closing = close(self._task, self._algorithm, self._state, accepted, self.number, aggregation_settings)
        return closing.state, round_metrics(self.number, map(self._record, self.clients), closing, seconds)

    def _record(self, client: int) -> ClientRound:
        plan = self._plans[client]
        if client in self.answers:
            message, answer = self.answers[client]
            return ClientRound.answered(plan, self.request(client, None), message, answer)
        absent = ClientRound(client, plan.settings, "absent")
        sent = self._requests.get(client)
        return absent if sent is None else replace(absent, down=sizes(sent.payload, sent.selection))

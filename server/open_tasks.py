"""The open tasks of an asynchronous run, as one round that goes on over the ends of rounds.

Each round plans as many clients as there are free places. A client has a place from its plan until the round that takes
its reply in is closed, or until its task is too old. So a client has at most one task. Between two rounds replies are
judged, too, and wait in the buffer for the next round. A restarted server makes every open task again from the state of
its own round (run_progress.EarlierRound).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.methods.rounds.exchange import NOT_DECLARED, ReplyClaim
from edgefl.methods.rounds.round_closing import AggregationSettings, close
from edgefl.methods.rounds.round_metrics import round_metrics
from edgefl.methods.task import State, Task
from edgefl.protocol.wire.messages import GroupReady, Train, Trained
from edgefl.server.events import GroupEvent, ReplyJudged
from edgefl.server.open_round import OpenRound


class OpenTasks(OpenRound):
    """The open tasks, by client, and the replies that wait in the buffer.

    number   number of the round into which the next accepted reply goes
    planned  clients that this round has planned, ascending
    clients  clients that have a place, ascending
    answers  replies in the buffer, accepted or refused, by client
    """

    def __init__(self, task: Task, algorithm: Algorithm, settings: AsynchronousRounds, number: int, values: str):
        """Start without tasks, before the round `number`."""
        super().__init__(task, algorithm, State({}), [], number, values)
        self._settings = settings
        self._rounds: dict[int, OpenRound] = {}  # client -> the round that planned its task
        self._given_up: list[int] = []

    @property
    def places(self) -> int:
        """The number of clients that may be given a task."""
        return self._settings.tasks - len(self._rounds)

    def adopt(self, planned: OpenRound, clients: Collection[int]) -> None:
        """Take these clients of a round over, which may be an earlier one."""
        self._rounds.update(dict.fromkeys(clients, planned))
        self.clients = tuple(sorted(self._rounds))

    def begin(self, planned: OpenRound, state: State) -> None:
        """Open the round of these plans, at this state of the method."""
        self.number, self.planned, self._state = planned.number, planned.clients, state
        self.adopt(planned, planned.clients)

    # The round that a client's task is of.

    def round_of(self, client: int) -> int:
        return self._rounds[client].number

    def awaits(self, client: int, round: int) -> bool:
        return client in self._rounds and self._rounds[client].number == round and client not in self.answers

    def request(self, client: int, deadline_s: float | None) -> Train:
        """Return the message that asks this client to train. It has no deadline, as the task outlives the round."""
        return self._rounds[client].request(client, None)

    def plan_again(self, client: int) -> None:
        self._rounds[client].plan_again(client)

    def restore(
        self, judged: Iterable[ReplyJudged], events: Iterable[GroupEvent], claim: Callable[[int], ReplyClaim]
    ) -> None:
        """Take in the saved replies to the tasks that are known so far."""
        for each in judged:
            if self.awaits(each.client, each.round):
                self.judge(each.client, each.message, claim(each.client))

    def judge(
        self, client: int, message: Trained | GroupReady, declared: ReplyClaim = NOT_DECLARED
    ) -> ReplyJudged | None:
        """Read a client's reply to its task, and put it into the buffer."""
        planned = self._rounds[client]
        judged = planned.judge(client, message, declared)
        assert judged is not None  # a round without secure aggregation judges at once
        self.answers[client] = planned.answers[client]
        return replace(judged, closes=self.number)

    def is_complete(self, quorum: int | None, absent: AbstractSet[int] = frozenset()) -> bool:
        """Return whether the buffer is full, or nobody but the `absent` has a task without an answer."""
        accepted = sum(answer.reply is not None for _, answer in self.answers.values())
        return accepted >= self._settings.buffer or self.answers.keys() | absent >= self._rounds.keys()

    def missing(self, refusing: AbstractSet[int]) -> list[int]:
        """Return the clients whose tasks the last closed round gave up, unless their devices have refused."""
        return [client for client in self._given_up if client not in refusing]

    def close(self, seconds: float, aggregation_settings: AggregationSettings) -> tuple[State, dict[str, Any]]:
        """Return the state after the round and its metrics. The replies of the buffer, and the tasks that are too old
        for the next round, lose their places.
        """
        old = [client for client in self.clients if self._settings.is_too_old(self.round_of(client), self.number + 1)]
        self._given_up = [client for client in old if client not in self.answers]
        ended = sorted({*self.answers, *old})
        plans = {client: self._rounds[client].plan(client) for client in self.answers}
        replies = {client: answer.reply for client, (_, answer) in self.answers.items()}
        accepted = [(plans[client], reply) for client, reply in replies.items() if reply is not None]
        stale = [plan.client for plan, _ in accepted if plan.round < self.number]
        sent = {client: self._rounds[client].state for client in stale}
        task, algorithm, number = self._task, self._algorithm, self.number
        closing = close(task, algorithm, self._state, accepted, number, aggregation_settings, sent=sent)
        records = [replace(self._rounds[client].record(client), staleness=self._staleness(client)) for client in ended]
        for client in ended:
            self._rounds.pop(client).forget(client)
        self.clients, self.answers, self.planned, self.number = tuple(sorted(self._rounds)), {}, (), number + 1
        return closing.state, {**round_metrics(number, records, closing, seconds), "open": len(self._rounds)}

    def _staleness(self, client: int) -> int:
        return self.number - self.round_of(client)

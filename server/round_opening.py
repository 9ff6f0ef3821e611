"""The round that opens next, with its plans and, in an asynchronous run, with the open tasks of earlier rounds.

An earlier process may have opened the round. Its plans are then made again. round_sequence.py decides when a round
opens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from edgefl.errors import RunError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.exchange import ReplyClaim
from edgefl.methods.task import State, Task
from edgefl.server.client_tags import ClientTags
from edgefl.server.open_round import OpenRound
from edgefl.server.open_tasks import OpenTasks
from edgefl.server.round_kinds import opened
from edgefl.server.round_planner import Planner
from edgefl.server.run_control import RunControl
from edgefl.server.run_progress import Progress
from edgefl.server.throughput_declarations import ThroughputDeclarations
from edgefl.server.verdict_log import Rulings


class RoundOpening:
    """The opening of rounds.

    planner  makes the plans
    tasks    open tasks of an asynchronous run, or None
    begun    clients of a round that an earlier process has opened, until it is opened here, or None
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        control: RunControl,
        tags: ClientTags,
        progress: Progress,
        rulings: Rulings,
        declarations: ThroughputDeclarations,
    ) -> None:
        rules = control.rules
        self._rules, self._rulings, self._stored = rules, rulings, progress
        self.planner = Planner(task, algorithm, control, tags, declarations.throughputs.at)
        self.begun = progress.opened
        self.tasks: OpenTasks | None = None
        if rules.asynchronous is not None:
            self.tasks = OpenTasks(task, algorithm, rules.asynchronous, progress.round + 1, rules.values)

    def start(self, initial: State, enrolled: Collection[int], claim: Callable[[int], ReplyClaim], now: float) -> None:
        """Make the open tasks of closed rounds again. `initial` is the method's state before round 1."""
        self.planner.start(enrolled, now)
        if self.tasks is None:
            return
        for earlier in self._stored.earlier:
            before = initial if earlier.state is None else earlier.state
            self.tasks.adopt(self._again(before, earlier.round, earlier.places), earlier.clients)
        self.tasks.restore(self._stored.answers, (), claim)

    def follows(
        self, state: State, round: int, connected: AbstractSet[int], now: float, refusing: AbstractSet[int]
    ) -> bool:
        """Return whether a round follows, which is planned as it would open now."""
        return self.planner.prepare(state, round, connected, now, refusing, self.tasks)

    def next(
        self, state: State, round: int, connected: AbstractSet[int], now: float, refusing: AbstractSet[int]
    ) -> OpenRound | None:
        """Return the round with its plans, or None if nobody is there who may be chosen and nobody has a task.

        Raises  RunError if an earlier process planned other clients
        """
        if self.begun is not None:
            planned = self._again(state, round, len(self.begun))
            if planned.clients != self.begun:
                raise RunError(f"round {round} began with clients {self.begun}; expected clients {planned.clients}")
            return planned
        plans = self.planner.take(state, round, connected, now, refusing, self.tasks)
        if not plans and self.candidates is not None and not (self.tasks is not None and self.tasks.clients):
            return None
        return opened(self.planner.task, self.planner.algorithm, state, plans, round, self._rules)

    @property
    def candidates(self) -> AbstractSet[int] | None:
        """The clients among which the clients of the last plans were chosen, or None for all."""
        return self.planner.task.candidates

    def open(self, planned: OpenRound, claim: Callable[[int], ReplyClaim]) -> OpenRound:
        """Open a round, with the replies that an earlier process has saved. In an asynchronous run the round has the
        open tasks, too.
        """
        stored, self._stored, self.begun = self._stored, Progress(), None
        found = planned
        if self.tasks is not None:
            self.tasks.begin(planned, planned.state)
            found = self.tasks
        found.restore(stored.answers, stored.group_events, claim)
        return found

    def _again(self, state: State, round: int, places: int) -> OpenRound:
        """Return a round that an earlier process has opened, with its plans."""
        begun_with = self._stored.candidates.get(round), self._rulings.lost_before(round, self._stored.losses)
        plans = self.planner.again(state, round, *begun_with, None if self.tasks is None else places)
        return opened(self.planner.task, self.planner.algorithm, state, plans, round, self._rules)

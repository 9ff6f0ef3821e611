"""The plans of the next round, and the clients among which the method chooses. round_sequence.py begins the round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from edgefl.errors import RunError
from edgefl.methods import early_stopping
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_set import ClientSet
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.asynchronous import with_places
from edgefl.methods.task import State, Task
from edgefl.methods.throughput import Throughput
from edgefl.server.client_tags import ClientTags
from edgefl.server.open_tasks import OpenTasks
from edgefl.server.presence import Presence
from edgefl.server.run_control import RunControl


class Planner:
    """A planner that asks the method, for all clients of the run or for the clients that the rules let it choose among.

    Clients whose devices have refused are never chosen, unless the method asks everybody in every round.
    task       task of the last plans, with their candidates
    algorithm  method of the last plans, which chooses as many clients as there are places in an asynchronous run
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        control: RunControl,
        tags: ClientTags,
        throughputs: Callable[[int], Mapping[int, Throughput]] = lambda round: {},
    ) -> None:
        """Make the planner. `throughputs` returns how fast clients are, as it holds in a round."""
        self.task = self._everybody = task
        self.algorithm = algorithm
        self._algorithm, self._control, self._tags, self._throughputs = algorithm, control, tags, throughputs
        self._plans: list[Plan] | None = None

    def start(self, enrolled: Iterable[int], now: float) -> None:
        """Begin with the clients that have enrolled in an earlier process. Call it before any other method."""
        self._presence = Presence(enrolled, now)

    def hear(self, client: int, now: float) -> None:
        """Note that the client is there, or was there until now."""
        self._presence.hear(client, now)

    def prepare(
        self,
        state: State,
        round: int,
        connected: AbstractSet[int],
        now: float,
        refusing: AbstractSet[int] = frozenset(),
        tasks: OpenTasks | None = None,
    ) -> bool:
        """Plan the round that `take` will return. Return False if the run is over, whichever clients might come.

        tasks  open tasks of an asynchronous run, whose clients are not chosen
        """
        self._plans = self._plan(state, round, self._candidates(connected, now, refusing, tasks), tasks)
        if self._plans or (tasks is not None and tasks.clients):
            return True
        if self.task.candidates is None:
            return False
        return bool(early_stopping.plans(self.algorithm, self._everybody, state, round))

    def forget(self) -> None:
        """Drop the prepared plans, because a client has declared its capacity or its throughput."""
        self._plans = None

    def take(
        self,
        state: State,
        round: int,
        connected: AbstractSet[int],
        now: float,
        refusing: AbstractSet[int] = frozenset(),
        tasks: OpenTasks | None = None,
    ) -> list[Plan]:
        """Return the plans of the round that begins. The list is empty if nobody is there who may be chosen."""
        plans, self._plans = self._plans, None
        return plans or self._plan(state, round, self._candidates(connected, now, refusing, tasks), tasks)

    def _candidates(
        self, connected: AbstractSet[int], now: float, refusing: AbstractSet[int], tasks: OpenTasks | None
    ) -> ClientSet | None:
        """Return the clients that may be chosen, or None for all clients of the run."""
        if self._algorithm.asks_all:
            return None
        everybody = range(self._everybody.clients)
        out = refusing if tasks is None else {*refusing, *tasks.clients}
        rules, presence = self._control.rules, self._presence
        if rules.choice is not None:
            return presence.fulfilling(rules.choice, self._tags, connected, now).without(out)
        if rules.seen_s is not None:
            return presence.lately(rules.seen_s, connected, now).without(out)
        found = (presence.enrolled if rules.among_enrolled else ClientSet(everybody)).without(out)
        return None if len(found) == len(everybody) else found

    def again(
        self,
        state: State,
        round: int,
        candidates: AbstractSet[int] | None,
        lost: AbstractSet[int] = frozenset(),
        places: int | None = None,
    ) -> list[Plan]:
        """Return the plans of a round that was begun in an earlier process, with these candidates.

        places  number of clients that were planned, in an asynchronous run
        lost  clients that came into the round after a loss. A client that has lost its state since it answered is not
              among them, because its answer belongs to the plan of before
        """
        everybody, self._everybody = self._everybody, replace(self._everybody, lost=lost)
        try:
            return self._plan(state, round, candidates, places=places)
        finally:
            self._everybody = everybody
            self.task = replace(self.task, lost=everybody.lost)

    def _plan(
        self,
        state: State,
        round: int,
        candidates: AbstractSet[int] | None,
        tasks: OpenTasks | None = None,
        places: int | None = None,
    ) -> list[Plan]:
        self.task = replace(self._everybody, candidates=candidates, throughputs=self._throughputs(round))
        places = places if tasks is None else tasks.places
        if places == 0:
            return []
        self.algorithm = self._algorithm if places is None else with_places(self._algorithm, places)
        plans = early_stopping.plans(self.algorithm, self.task, state, round)
        for plan in plans:
            if candidates is not None and plan.client not in candidates:
                if not self._control.is_selecting:  # a method without a choice of its own may plan everybody
                    return self._plan(state, round, None, tasks, places)
                name = self._algorithm.name
                raise RunError(f"{name} plans client {plan.client} for round {round}; expected one that may be chosen")
        return plans

"""The plans of the next round, and whom its clients are chosen among. Not when it begins (round_sequence.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from edgefl.errors import RunError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan
from edgefl.methods.task import State, Task
from edgefl.methods.throughput import Throughput
from edgefl.server.presence import Presence


class Planner:
    """Asks the method, for all clients of the run or for those that were seen within `seen_s`.

    task  of the last plans: with the candidates that they are of
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        seen_s: float | None,
        throughputs: Callable[[int], Mapping[int, Throughput]] = lambda round: {},
    ) -> None:
        """`throughputs`: how fast clients are, as it holds in a round."""
        self.task = self._everybody = task
        self._algorithm, self._seen_s, self._throughputs = algorithm, seen_s, throughputs
        self._plans: list[Plan] | None = None

    def start(self, enrolled: Iterable[int], now: float) -> None:
        """Before anything else: these have enrolled in an earlier process."""
        self._presence = Presence(self._seen_s, enrolled, now)

    def hear(self, client: int, now: float) -> None:
        """The client is there, or was until now."""
        self._presence.hear(client, now)

    def prepare(self, state: State, round: int, connected: AbstractSet[int], now: float) -> bool:
        """Plans the round that `take` will give. False if the run is over: there is none, whoever might come."""
        self._plans = self._plan(state, round, self._presence.lately(connected, now))
        if self._plans or self.task.candidates is None:
            return bool(self._plans)
        return bool(self._algorithm.plan(self._everybody, state, round))

    def forget(self) -> None:
        """What was prepared is out of date: a client has declared its capacity, or how fast it is."""
        self._plans = None

    def take(self, state: State, round: int, connected: AbstractSet[int], now: float) -> list[Plan]:
        """The plans of the round that begins; none where nobody is there who may be chosen."""
        plans, self._plans = self._plans, None
        return plans or self._plan(state, round, self._presence.lately(connected, now))

    def again(self, state: State, round: int, candidates: frozenset[int] | None) -> list[Plan]:
        """The plans of a round that was begun in an earlier process, with these candidates."""
        return self._plan(state, round, candidates)

    def _plan(self, state: State, round: int, candidates: frozenset[int] | None) -> list[Plan]:
        self.task = replace(self._everybody, candidates=candidates, throughputs=self._throughputs(round))
        plans = self._algorithm.plan(self.task, state, round)
        for plan in plans:
            if candidates is not None and plan.client not in candidates:
                name = self._algorithm.name
                raise RunError(
                    f"{name} plans client {plan.client} for round {round}; expected one that was seen lately"
                )
        return plans

"""The tasks of a simulation that have been trained, until the round that takes their replies in.

A simulated client trains when its task is planned. Its reply waits here until the participation model says that the
reply has arrived. Where rounds wait for their clients, every reply is due in its own round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from edgefl.methods.plan import Plan
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.methods.rounds.participation import ParticipationModel
from edgefl.methods.rounds.round_metrics import ClientRound
from edgefl.methods.task import State
from edgefl.study.simulation.client_player import Outcome


class TaskInFlight(NamedTuple):
    """A plan, the state from which it was made, and what came of it."""

    plan: Plan
    state: State
    outcome: Outcome

    def record(self, round: int) -> ClientRound:
        """Return the client's record for the round that takes the reply in, or gives the task up."""
        record, staleness = self.outcome.record, round - self.plan.round
        return record if record.staleness == staleness else replace(record, staleness=staleness)

    def given_up(self) -> TaskInFlight:
        """Return the task of a client whose reply will come too late, if it comes."""
        record = self.outcome.record
        record = record if record.status == "absent" else replace(record, status="late")
        return self._replace(outcome=self.outcome._replace(reply=None, record=record))


class TasksInFlight:
    """The tasks by client. A client has at most one."""

    def __init__(self, settings: AsynchronousRounds | None, attendance: ParticipationModel) -> None:
        """Start without tasks. `settings` is None where rounds wait for their clients."""
        self._settings, self._attendance = settings, attendance
        self._tasks: dict[int, TaskInFlight] = {}

    @property
    def clients(self) -> frozenset[int]:
        return frozenset(self._tasks)

    @property
    def places(self) -> int | None:
        """The number of clients that may be given a task, or None where the method alone decides."""
        return None if self._settings is None else self._settings.tasks - len(self._tasks)

    def add(self, plans: Sequence[Plan], state: State, outcomes: Sequence[Outcome]) -> None:
        """Add the tasks of a round. `state` is the method's state from which the plans were made."""
        for plan, outcome in zip(plans, outcomes, strict=True):
            self._tasks[plan.client] = TaskInFlight(plan, state, outcome)

    def ended(self, round: int) -> list[TaskInFlight]:
        """Remove and return the tasks that end in the round, in the order of clients. A task ends when the round takes
        its reply in, or when it is too old for the next round.
        """
        records: Mapping[int, ClientRound] = {client: task.outcome.record for client, task in self._tasks.items()}
        due = set(records) if self._settings is None else set(self._attendance.due(round, records))
        found = []
        for client in sorted(self._tasks):
            task = self._tasks[client]
            if client not in due and self._settings is not None:
                if not self._settings.is_too_old(task.plan.round, round + 1):
                    continue
                task = task.given_up()
            found.append(task)
            del self._tasks[client]
        return found

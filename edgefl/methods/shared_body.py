"""The common part of methods whose clients train a common body with local steps under heads of their own.

This module is not a method: fedper.py and fedrep.py say how a client trains. The server averages bodies, and heads stay
on the clients (personal_head.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.own_head import OwnHead
from edgefl.methods.personal_head import Personal, steps_of
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params


@dataclass(frozen=True)
class SharedBody(OwnHead, EarlyStopping, LocalTraining):
    """The settings of methods with a common body, and the server's half: theta is the mean of the clients' bodies,
    weighted by their training samples.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_head()

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = self.sent(task, state)
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if BODY in reply.payload:
            accumulator.of(BODY).add(reply.client, reply.payload[BODY], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({BODY: accumulator.of(BODY).over(state.arrays[BODY])})

    def answer(self, mine: Personal, plan: Plan, loss: float, steps: int) -> Reply:
        """Client: keep the head, and return the reply of a round of `steps` steps with this mean loss."""
        mine.keep_head()
        reply = Reply(
            plan.round,
            plan.client,
            payload={BODY: mine.learner.take(names=self.body_names(mine.client_state.spec))},
            examples=len(mine.client_state.train),
            steps=steps,
            metrics={"loss": loss},
        )
        return tested(reply, mine.evaluate()) if self.eval_point == "post_local" else reply

    @property
    def head_passes(self) -> int:
        """The passes over the head of a client that has never taken part."""
        return self.epochs

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the common body under a new head after `head_passes` over the head."""
        options = steps_of(self.head(client_state.spec))
        with self.own(client_state, arrays[BODY]) as mine:
            yield self.refit(mine, client_state, self.head_passes, self.batch, options=options)

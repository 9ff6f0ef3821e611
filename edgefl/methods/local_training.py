"""Local training: every client trains its own model and nothing is sent.

The clients of a round are sampled as in FedAvg and train as long, so that the computation of a round is equal.

Source  ALGORITHMS 7.1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import State, Task
from edgefl.models.graph import Params


@dataclass(frozen=True)
class LocalOnly(LocalTraining):
    """Local training without a server: no bytes are sent, and a client's model is independent of other
    clients' data.

    Each client trains the trained part of the model for itself.
    """

    name: ClassVar[str] = "local"
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def start(self, task: Task, initial: Params) -> State:
        return State({})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        """Do nothing, because no values arrive."""

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return state

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        fit = client_state.learner.fit(
            client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        )
        metrics = {"loss": fit.loss_sum / fit.examples}
        return Reply(plan.round, plan.client, examples=len(client_state.train), steps=fit.steps, metrics=metrics)

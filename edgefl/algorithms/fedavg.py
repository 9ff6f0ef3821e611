"""Federated averaging: every client trains the whole model, the server averages by samples. Source: ALGORITHMS 7.2.

It is FedSPU at p = 1 without personal models: nothing persists on the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.algorithms.base import (
    MODEL,
    Algorithm,
    Local,
    Plan,
    Reply,
    State,
    Tally,
    Task,
    check_sgd,
    minibatches,
    sample_clients,
)
from edgefl.graph import Params
from edgefl.learners.base import SGD
from edgefl.update import put, take


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """w^{t+1} = sum n_k w_k / sum n_k over the clients that reported."""

    name: ClassVar[str] = "fedavg"
    keeps_model: ClassVar[bool] = False

    per_round: int = 10
    epochs: int = 5
    batch: int = 16
    lr: float = 0.05

    def __post_init__(self) -> None:
        check_sgd(self.per_round, self.epochs, self.batch, self.lr)

    def start(self, task: Task, initial: Params) -> State:
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def fold(self, tally: Tally, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            tally.mean.add(reply.client, reply.payload[MODEL], reply.examples)

    def finish(self, task: Task, state: State, tally: Tally, round: int) -> State:
        return State({MODEL: tally.mean.over(state.arrays[MODEL])})

    def train(self, local: Local, plan: Plan) -> Reply:
        put(local.learner.params, plan.payload[MODEL])
        batches = minibatches(local, plan.round, self.epochs, self.batch)
        fit = local.learner.fit(local.data, batches, SGD(self.lr))
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: take(local.learner.params, local.spec, None)},
            examples=len(local.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )

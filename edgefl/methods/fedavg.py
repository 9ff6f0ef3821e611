"""Federated averaging: every client trains the whole model, and the server averages the models.

It equals FedSPU at p = 1 without personal models. Nothing persists on the client.

Source  ALGORITHMS 7.2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.fit_options import FitOptions, Pull
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, evaluate
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.fine_tuning import FineTuning
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.methods.whole_values import whole
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import Update


@dataclass(frozen=True)
class FedAvg(EarlyStopping, FineTuning):
    """The method FedAvg: w^{t+1} = sum n_k w_k / sum n_k over the clients that reported.

    weight      weight of a client in the average: 'samples' (n_k), or 'uniform' (1 for every client)
    eval_point  'post_local' adds the test result of the client's model after training to a reply. 'none' does not

    All clients train and share the trained part of the model.
    """

    name: ClassVar[str] = "fedavg"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    takes_slices: ClassVar[bool] = True

    weight: Literal["samples", "uniform"] = "samples"
    eval_point: Literal["none", "post_local"] = "none"

    def start(self, task: Task, initial: Params) -> State:
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            weight = reply.examples if self.weight == "samples" else 1
            accumulator.mean.add(reply.client, reply.payload[MODEL], weight)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({MODEL: accumulator.mean.over(state.arrays[MODEL])})

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        batches, optimizer = self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        options = FitOptions(pull=self.pull(whole(plan.payload[MODEL], client_state.learner)))
        fit = client_state.learner.fit(client_state.data, batches, optimizer, options)
        reply = Reply(
            plan.round,
            plan.client,
            payload={MODEL: client_state.taken()},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )
        return tested(reply, evaluate(client_state)) if self.eval_point == "post_local" else reply

    def pull(self, received: Update) -> Pull | None:
        """Return the strength and the point of the pull on a client's model in training, or None without a pull."""
        return None

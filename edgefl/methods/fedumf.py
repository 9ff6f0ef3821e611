"""FedUmf, unauthorised model fusion: clients that may not send train all the same, and add it when they next may. Both
halves.

Everyone receives the model in every round, a few are authorised to send theirs. A client that is not keeps what its
training changed. If it is authorised in the very next round it adds that to the model it starts from; otherwise it is
too old and is dropped. The bytes sent up are FedAvg's, the steps taken are those of all clients.

Source: FedUmf, Alg. 1; ALGORITHMS 5. There g is kept by every client together with whether it was authorised; a client
that was authorised has sent its own, so here it keeps none. Running statistics are not steps of a learning rate: they
are averaged like everything else and never fused [ours].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.learner import Array
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.local_steps import LocalTraining, learnable
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import Update

DELTA = "delta"  # g: what the training of the last round changed


@dataclass(frozen=True)
class FedUmf(LocalTraining):
    """The method FedUmf: theta^{t+1} = mean of the authorised clients' models.

    fusion  alpha of the paper: share of the kept change that is added; 0 is FedAvg with the same `weight`
    weight  weight of a client in the mean: 'uniform' as in the paper, or its 'samples'
    """

    name: ClassVar[str] = "fedumf"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True
    asks_all: ClassVar[bool] = True
    former: ClassVar[Mapping[str, str]] = {"alpha": "fusion"}

    fusion: float = 1.0
    weight: Literal["samples", "uniform"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.fusion <= 1, "fusion", self.fusion, "0 <= fusion <= 1")

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        return State({MODEL: initial})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        return to_everyone(task, {MODEL: take(state.arrays[MODEL], task.spec, None)}, self.per_round, round)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            weight = reply.examples if self.weight == "samples" else 1
            accumulator.mean.add(reply.client, reply.payload[MODEL], weight)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({MODEL: accumulator.mean.over(state.arrays[MODEL])})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        fuse(client_state, plan, self.fusion, self.rate(plan.round))
        start = learnable(
            client_state.learner.read(), client_state.spec
        )  # after the fusion, so that it is not kept a second time
        fit = client_state.learner.fit(
            client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        )
        remember(client_state, plan, start, self.rate(plan.round))
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: client_state.learner.take()} if plan.authorised else {},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )


def to_everyone(task: Task, payload: Mapping[str, Update], per_round: int, round: int) -> list[Plan]:
    """One plan per registered client; those that FedAvg would select are authorised."""
    chosen = set(sample_clients(task, range(task.clients), per_round, round))
    return [Plan("train", round, k, payload=payload, authorised=k in chosen) for k in range(task.clients)]


def fuse(client_state: ClientState, plan: Plan, fusion: float, lr: float) -> None:
    """Adds fusion * (lr / its own lr) * g to the client's model if it is authorised and g is of the round before.

    The sign is right: g is a change of the parameters, not a gradient.
    """
    if plan.authorised and fusion > 0 and client_state.private.get("round") == plan.round - 1:
        share = fusion * (lr / client_state.private["lr"])  # exactly fusion while the rate stays the same
        for name, change in client_state.arrays[DELTA].items():  # one by one, so that the model is not there twice
            client_state.learner.write({name: client_state.learner.read((name,))[name] + share * change})


def remember(client_state: ClientState, plan: Plan, start: Mapping[str, Array], lr: float) -> None:
    """Keeps g = theta - start with its round and rate; nothing if the client may send theta now."""
    client_state.arrays = {group: params for group, params in client_state.arrays.items() if group != DELTA}
    client_state.private = {}
    if not plan.authorised:
        client_state.private = {"round": plan.round, "lr": lr}
        theta = client_state.learner.read()
        client_state.arrays[DELTA] = {name: theta[name] - value for name, value in start.items()}

"""FedUmf, unauthorised model fusion: clients that may not send still train, and add the result when they next may send.

The file has the server's half and the client's half. Every client receives the model in every round, and a few are
authorised to send theirs. A client that is not authorised keeps the change of its training. If it is authorised in the
next round, it adds the change to the model from which it starts. Otherwise the change is too old and is dropped. As
many bytes are sent up as in FedAvg, and all clients take steps.

In the paper every client keeps g and whether it was authorised. Here a client that was authorised keeps no g, because
it has sent its model. Running statistics do not come from steps of a learning rate. They are averaged like everything
else and never fused [ours].

Source  FedUmf, Alg. 1. ALGORITHMS 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.learner import Array
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.early_stopping import RUNNING, EarlyStopping
from edgefl.methods.fine_tuning import FineTuning
from edgefl.methods.local_steps import learnable
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import Update

DELTA = "delta"  # g, the change of the last round's training
KEPT = ("round", "lr")  # private values of a client that keeps g: the round of g and its learning rate


@dataclass(frozen=True)
class FedUmf(EarlyStopping, FineTuning):
    """The method FedUmf: theta^{t+1} = mean of the authorised clients' models.

    fusion  alpha of the paper: share of the kept change that is added. 0 is FedAvg with the same `weight`
    weight  weight of a client in the mean: 'uniform' as in the paper, or its 'samples'

    All clients share the trained part of the model, and a client fuses the change of the trained parameters alone.
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
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None)}
        return to_everyone(task, running(task, state), payload, self.per_round, round)

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            weight = reply.examples if self.weight == "samples" else 1
            accumulator.mean.add(reply.client, reply.payload[MODEL], weight)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({MODEL: accumulator.mean.over(state.arrays[MODEL])})

    # The client.

    def leave(self, client_state: ClientState) -> None:
        forget(client_state)

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        fuse(client_state, plan, self.fusion, self.rate(plan.round))
        start = learnable(
            client_state.learner.read(), client_state.spec
        )  # after the fusion, so that the fused change is not kept a second time
        fit = client_state.learner.fit(
            client_state.data, self.batches(client_state, plan.round), self.local_optimizer(plan.round)
        )
        remember(client_state, plan, start, self.rate(plan.round))
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: client_state.taken()} if plan.authorised else {},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )


def forget(client_state: ClientState) -> None:
    """Drop g, its round and its rate."""
    client_state.arrays = {group: params for group, params in client_state.arrays.items() if group != DELTA}
    client_state.private = {name: value for name, value in client_state.private.items() if name not in KEPT}


def running(task: Task, state: State) -> Sequence[int]:
    """Return the ids of the clients that have not stopped early."""
    return state.values.get(RUNNING, range(task.clients))


def to_everyone(
    task: Task, clients: Sequence[int], payload: Mapping[str, Update], per_round: int, round: int
) -> list[Plan]:
    """Return one plan for each of these clients. The clients that FedAvg would select are authorised."""
    chosen = set(sample_clients(task, clients, per_round, round))
    return [Plan("train", round, k, payload=payload, authorised=k in chosen) for k in clients]


def fuse(client_state: ClientState, plan: Plan, fusion: float, lr: float) -> None:
    """Add fusion * (lr / g's lr) * g to the client's model if it is authorised and g is from the round before.

    The sign is a plus, because g is a change of the parameters and not a gradient.
    """
    if plan.authorised and fusion > 0 and client_state.private.get("round") == plan.round - 1:
        share = fusion * (lr / client_state.private["lr"])  # exactly fusion while the rate does not change
        for name, change in client_state.arrays[DELTA].items():  # one by one, to avoid a second copy of the model
            client_state.learner.write({name: client_state.learner.read((name,))[name] + share * change})


def remember(client_state: ClientState, plan: Plan, start: Mapping[str, Array], lr: float) -> None:
    """Keep g = theta - start with its round and rate. Nothing is kept if the client may send theta now."""
    forget(client_state)
    if not plan.authorised:
        client_state.private |= {"round": plan.round, "lr": lr}
        theta = client_state.learner.read()
        client_state.arrays[DELTA] = {name: theta[name] - value for name, value in start.items()}

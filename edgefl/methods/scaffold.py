"""SCAFFOLD: control variates on the server and on every client correct the drift of local steps.

The file has the server's half and the client's half. A client estimates its control variate anew by option II of the
paper, from its move over a round. Clients count equally.

Running statistics are averaged and not corrected [ours].

Source  Karimireddy et al. (ICML 2020), Alg. 1. ALGORITHMS 7.4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.learning.fit_options import FitOptions
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.fine_tuning import FineTuning
from edgefl.methods.local_steps import learnable, zeros
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import values

LEARN: tuple[Kind, ...] = ("learn",)
CONTROL = "control"  # a client's c_i, or on the server c, the mean of all c_i. Also a payload


@dataclass(frozen=True)
class Scaffold(EarlyStopping, FineTuning):
    """The method SCAFFOLD: a client steps along g - c_i + c, and the server adds the means of what changed.

    server_lr  eta_g, the factor of the mean move of the clients on the server

    All clients share the trained part of the model. Control variates have the trained parameters alone. They go down
    and up with the model, so that a round has twice the values of a round of FedAvg.
    """

    name: ClassVar[str] = "scaffold"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = (CONTROL,)

    server_lr: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.server_lr < float("inf"), "server_lr", self.server_lr, "a finite server_lr > 0")
        steps = f"{self.optimizer} with momentum={self.momentum:g}"
        check(self.optimizer == "sgd" and not self.momentum, "optimizer", steps, "plain sgd: a client's move over "
              "steps and rate is taken for its mean gradient")  # fmt: skip

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        return State({MODEL: initial, CONTROL: zeros(learnable(initial, task.spec))})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        control = take(state.arrays[CONTROL], task.spec, None, kinds=LEARN)
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None), CONTROL: control}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)
            accumulator.of(CONTROL).add(reply.client, reply.payload[CONTROL], 1)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Update w += eta_g mean(x_i - w) and c += (1 / N) sum of the changes of c_i. A round without replies changes
        nothing.
        """
        if not accumulator.mean.clients:
            return state
        old, control = state.arrays[MODEL], {}
        new = accumulator.mean.over(old)
        for name, c in state.arrays[CONTROL].items():
            control[name] = (c + accumulator.of(CONTROL).total[name] / task.clients).astype(c.dtype)
            if self.server_lr != 1:
                w = old[name].astype("float64")
                new[name] = (w + self.server_lr * (new[name] - w)).astype(c.dtype)
        return State({MODEL: new, CONTROL: control})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        """Take K steps along g - c_i + c from w, then set c_i to c_i - c + (w - x) / (K eta), where eta is the rate of
        this round.
        """
        client_state.learner.write(plan.payload[MODEL])
        w, shared = values(plan.payload[MODEL]), values(plan.payload[CONTROL])
        before = client_state.arrays.get(CONTROL) or zeros(shared)
        fit = client_state.learner.fit(
            client_state.data,
            self.batches(client_state, plan.round),
            self.local_optimizer(plan.round),
            FitOptions(linear={name: c - before[name] for name, c in shared.items()}),
        )
        x, way = client_state.learner.read(shared.keys()), fit.steps * self.rate(plan.round)
        after = {name: c - shared[name] + (w[name] - x[name]) / way for name, c in before.items()}
        client_state.arrays = {CONTROL: {name: value.astype(w[name].dtype) for name, value in after.items()}}
        change = {name: value - before[name] for name, value in client_state.arrays[CONTROL].items()}
        return Reply(
            plan.round,
            plan.client,
            payload={
                MODEL: client_state.taken(),
                CONTROL: take(change, client_state.spec, None, kinds=LEARN),
            },
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )

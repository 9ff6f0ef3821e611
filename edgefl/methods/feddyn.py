"""FedDyn, dynamic regularisation: every client adds a linear term that remembers its own gradient.

The file has the server's half and the client's half. Every client has the same weight. The released code scales alpha
by the client's share of the samples, which is equivalent for clients of equal size.

Running statistics are averaged and not corrected [ours].

Source  Acar et al. (ICLR 2021), Alg. 1. ALGORITHMS 7.5
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
from edgefl.models.neurons.gather import take

GRADIENT = "gradient"  # a client's g_i, or on the server h, the mean of all g_i


@dataclass(frozen=True)
class FedDyn(EarlyStopping, FineTuning):
    """The method FedDyn: w^{t+1} = mean of the reporting clients' models - h / alpha.

    alpha  weight of alpha / 2 |x - w|^2 in the local loss

    All clients share the trained part of the model. The gradients that server and clients keep have the trained
    parameters alone.
    """

    name: ClassVar[str] = "feddyn"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True

    alpha: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.alpha < float("inf"), "alpha", self.alpha, "a finite alpha > 0")

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        return State({MODEL: initial, GRADIENT: zeros(learnable(initial, task.spec))})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {MODEL: take(state.arrays[MODEL], task.spec, None)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Update h -= alpha / N sum (x_i - w), then w = mean x_i - h / alpha. A round without replies
        changes nothing.
        """
        count, old = len(accumulator.mean.clients), state.arrays[MODEL]
        if not count:
            return state
        new, gradient = accumulator.mean.over(old), {}
        for name, h in state.arrays[GRADIENT].items():
            moved = accumulator.mean.total[name] - count * old[name].astype("float64")
            gradient[name] = (h - self.alpha / task.clients * moved).astype(h.dtype)
            new[name] = (accumulator.mean.total[name] / count - gradient[name] / self.alpha).astype(h.dtype)
        return State({MODEL: new, GRADIENT: gradient})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        """Minimise F_i(x) - <g_i, x> + alpha / 2 |x - w|^2, then update g_i -= alpha (x - w)."""
        client_state.learner.write(plan.payload[MODEL])
        received = learnable(client_state.learner.read(), client_state.spec)
        gradient = client_state.arrays.get(GRADIENT) or zeros(received)
        fit = client_state.learner.fit(
            client_state.data,
            self.batches(client_state, plan.round),
            self.local_optimizer(plan.round),
            FitOptions(pull=(self.alpha, received), linear={name: -g for name, g in gradient.items()}),
        )
        trained = client_state.learner.read()
        client_state.arrays = {GRADIENT: {n: g - self.alpha * (trained[n] - received[n]) for n, g in gradient.items()}}
        return Reply(
            plan.round,
            plan.client,
            payload={MODEL: client_state.taken()},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )

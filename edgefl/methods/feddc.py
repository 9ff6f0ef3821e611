"""FedDC, local drift decoupling and correction: every client learns how far it drifts from the global model.

The file has the server's half and the client's half. Every client has the same weight. The released code scales alpha
and s_g by the client's share of the samples, which is equivalent for clients of equal size.

Running statistics are averaged and not corrected [ours].

Source  Gao et al. (CVPR 2022) in the form of its released code. ALGORITHMS 7.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import Array, FitResult
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
from edgefl.models.neurons.update import Update, values

LEARN: tuple[Kind, ...] = ("learn",)
DRIFT = "drift"  # a client's h_i, the sum of its moves, or on the server the mean of all h_i
GRADIENT = "gradient"  # a client's s_i, or on the server s_g, the mean of all s_i. Also a payload


@dataclass(frozen=True)
class FedDC(EarlyStopping, FineTuning):
    """The method FedDC: w^{t+1} = mean of the reporting clients' models + mean of the drifts.

    alpha   weight of alpha / 2 |x - (w - h_i)|^2 in the local loss
    drifts  clients whose drifts the mean is over: 'all' clients, as in the released code, or the 'participants', as in
            the paper, which add their h_i to the values that they send

    All clients share the trained part of the model. Drifts and mean gradients have the trained parameters alone.
    """

    name: ClassVar[str] = "feddc"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = (GRADIENT,)

    alpha: float = 0.01
    drifts: Literal["all", "participants"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.alpha < float("inf"), "alpha", self.alpha, "a finite alpha >= 0")
        check(self.optimizer == "sgd", "optimizer", self.optimizer, "sgd: a client's move over steps and rate is taken "
              "for its mean gradient")  # fmt: skip

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        nothing = zeros(learnable(initial, task.spec))
        return State({MODEL: initial, GRADIENT: nothing, DRIFT: nothing})

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = self.payload(task, state)
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    @staticmethod
    def payload(task: Task, state: State) -> dict[str, Update]:
        """Return the payload of every client of a round: w and s_g."""
        gradient = take(state.arrays[GRADIENT], task.spec, None, kinds=LEARN)
        return {MODEL: take(state.arrays[MODEL], task.spec, None), GRADIENT: gradient}

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if MODEL in reply.payload:
            accumulator.mean.add(reply.client, reply.payload[MODEL], 1)
            accumulator.of(GRADIENT).add(reply.client, reply.payload[GRADIENT], 1)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Close the round. A round without replies changes nothing.

        The server does not need h_i, because it adds up d_i = x_i - w.
        """
        count, old, total = len(accumulator.mean.clients), state.arrays[MODEL], accumulator.mean.total
        if not count:
            return state
        new, drift, gradient = accumulator.mean.over(old), {}, {}
        for name, h in state.arrays[DRIFT].items():
            drift[name], s = h, state.arrays[GRADIENT][name]
            gradient[name] = (s + accumulator.of(GRADIENT).total[name] / task.clients).astype(s.dtype)
            if self.drifts == "all":
                moved = total[name] - count * old[name].astype("float64")
                drift[name] = (h + moved / task.clients).astype(h.dtype)
                new[name] = (total[name] / count + drift[name]).astype(h.dtype)
        return State({MODEL: new, GRADIENT: gradient, DRIFT: drift})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        client_state.learner.write(plan.payload[MODEL])
        return self.commit(client_state, plan, self.fit(client_state, plan))

    def fit(self, client_state: ClientState, plan: Plan) -> FitResult:
        """Minimise F_i(x) + alpha / 2 |x - (w - h_i)|^2 + <x, s_g - s_i> from the model that the learner holds."""
        w, shared = values(plan.payload[MODEL]), values(plan.payload[GRADIENT])
        drift, gradient = own(client_state, shared)
        return client_state.learner.fit(
            client_state.data,
            self.batches(client_state, plan.round),
            self.local_optimizer(plan.round),
            FitOptions(
                pull=(self.alpha, {name: w[name] - h for name, h in drift.items()}),
                linear={name: shared[name] - s for name, s in gradient.items()},
            ),
        )

    def commit(self, client_state: ClientState, plan: Plan, fit: FitResult) -> Reply:
        """Add the move d = x - w to h_i, estimate s_i anew, and return the reply.

        The rate eta in d / (K eta) does not decay.
        """
        x, w = client_state.learner.read(), values(plan.payload[MODEL])
        shared = values(plan.payload[GRADIENT])
        drift, before = own(client_state, shared)
        moved = {name: x[name] - w[name] for name in shared}
        after = {name: s - shared[name] - moved[name] / (fit.steps * self.lr) for name, s in before.items()}
        drift = {name: h + moved[name] for name, h in drift.items()}
        client_state.arrays = {**client_state.arrays, DRIFT: drift, GRADIENT: after}
        sent = x if self.drifts == "all" else {**x, **{name: x[name] + h for name, h in drift.items()}}
        change = {name: after[name] - before[name] for name in after}
        return Reply(
            plan.round,
            plan.client,
            payload={
                MODEL: take(sent, client_state.spec, None),
                GRADIENT: take(change, client_state.spec, None, kinds=LEARN),
            },
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )


def own(client_state: ClientState, like: Mapping[str, Array]) -> tuple[Params, Params]:
    """Return h_i and s_i of a client. Before its first participation they are zeros with the shapes of `like`."""
    return client_state.arrays.get(DRIFT) or zeros(like), client_state.arrays.get(GRADIENT) or zeros(like)

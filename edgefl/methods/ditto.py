"""Ditto: FedAvg, and on every client in addition a personal model that is drawn towards the global model.

The file has the server's half and the client's half. The server's state is that of FedAvg, bit for bit. Personal models
neither leave their clients nor change what the clients send. FedSpa compares with mu = 0.5, 2 global and 3 personal
epochs.

Source  Ditto (Li et al., ICML 2021). ALGORITHMS 7.7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from edgefl.learning.fit_options import FitOptions
from edgefl.methods.client_state import ClientState, OwnModel, evaluate, minibatches, passes
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.task import MODEL
from edgefl.methods.whole_values import whole
from edgefl.models.graph import Params
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class Ditto(FedAvg):
    """The method Ditto: v <- v - eta (grad F_k(v) + mu (v - w)), where v is the personal model and w the global model
    received.

    mu               strength by which the personal model is drawn to w
    epochs           passes in a round over the model that is sent to the server
    personal_epochs  passes in a round over the personal model, on batches in the same order. The personal model begins
                     as w^0

    Both models of a client have the trained part of the model. The clients share the trained part of the one model,
    and the personal model stays at the client.
    """

    name: ClassVar[str] = "ditto"
    asynchronous: ClassVar[bool] = True
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    former: ClassVar[Mapping[str, str]] = {"lam": "mu"}

    epochs: int = 2
    mu: float = 0.5
    personal_epochs: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.mu < float("inf"), "mu", self.mu, "a finite mu >= 0")
        check(self.personal_epochs >= 1, "personal_epochs", self.personal_epochs, "personal_epochs >= 1")

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.epochs + self.personal_epochs, self.batch)

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        own = client_state.learner.read(client_state.spec.exchanged)
        personal = {name: value.copy() for name, value in own.items()}
        reply = super().train(client_state, plan)
        client_state.learner.write(personal)
        batches = minibatches(client_state, plan.round, self.personal_epochs, self.batch)
        optimizer, options = self.local_optimizer(plan.round), self._drawn(client_state, plan)
        fit = client_state.learner.fit(client_state.data, batches, optimizer, options)
        metrics = {**reply.metrics, "personal_loss": fit.loss_sum / fit.examples}
        reply = Reply(**{**vars(reply), "steps": reply.steps + fit.steps, "metrics": metrics})
        return tested(reply, evaluate(client_state)) if self.eval_point == "post_local" else reply

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the personal model after training, drawn towards the newest global model."""
        options = self._drawn(client_state, plan)
        mine = OwnModel(client_state.learner, client_state.data)
        yield self.refit(mine, client_state, epochs, self.batch, options=options)

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield a personal model that begins as the global model, after `personal_epochs` passes drawn towards it."""
        received = {name: arrays[MODEL][name] for name in client_state.spec.exchanged}
        client_state.learner.write(received)
        mine, options = OwnModel(client_state.learner, client_state.data), FitOptions(pull=(self.mu, received))
        yield self.refit(mine, client_state, self.personal_epochs, self.batch, options=options)

    def _drawn(self, client_state: ClientState, plan: Plan) -> FitOptions:
        """Return the options of a training that is drawn to the received model."""
        return FitOptions(pull=(self.mu, values(whole(plan.payload[MODEL], client_state.learner))))

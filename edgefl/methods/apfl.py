"""APFL: FedAvg, and on every client a personal model that is mixed with the client's copy of the global model.

The file has the server's half and the client's half. The server's state is that of FedAvg, bit for bit. A client steps
its copy w of the global model and its personal parameters v on the same batches, v along the gradient at the mixture
alpha v + (1 - alpha) w. The mixture is the client's model.

The mixture has the running statistics of the copy [ours].

Source  Deng, Kamani and Mahdavi, "Adaptive personalized federated learning" (arXiv:2003.13461), Alg. 1. ALGORITHMS 7.23
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.learner import Array, Batches, Gradient
from edgefl.methods.client_state import ClientState, OwnModel, dropout_key, evaluate, minibatches, passes
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.local_steps import UNCOUNTED, learnable
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.task import MODEL
from edgefl.models.graph import Params

PERSONAL = "personal"  # name of v among a client's arrays
ALPHA = "alpha"  # name of a client's alpha among its private values


@dataclass
class Mixture:
    """A client's personal parameters in a round.

    v          personal parameters
    alpha      share of v in the mixture
    loss_sum   sum over the steps of the mixture's loss on a batch, times the batch's examples
    """

    v: Params
    alpha: float
    loss_sum: float = field(default=0.0, init=False)

    def of(self, w: Params) -> Params:
        """Return alpha v + (1 - alpha) w."""
        return {name: self.mixed(v, w[name]) for name, v in self.v.items()}

    def mixed(self, v: Array, w: Array) -> Array:
        return (self.alpha * v + (1 - self.alpha) * w).astype(v.dtype)


@dataclass(frozen=True)
class APFL(FedAvg):
    """The method APFL: v <- v - eta alpha grad F_k(alpha v + (1 - alpha) w), beside FedAvg's steps of w.

    alpha     share of the personal parameters in a client's model, at first
    adaptive  whether a client steps its alpha along its gradient, once at the beginning of a round

    Both models of a client have the trained part of the model. The clients share the trained part of the one model,
    and the personal parameters stay at the client.
    """

    name: ClassVar[str] = "apfl"
    keeps_model: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    takes_slices: ClassVar[bool] = False

    alpha: float = 0.5
    adaptive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.alpha <= 1, "alpha", self.alpha, "0 <= alpha <= 1")
        steps = f"{self.optimizer} with momentum={self.momentum:g} and clip={self.clip:g}"
        is_plain = self.optimizer == "sgd" and not self.momentum and not self.clip
        check(is_plain, "optimizer", steps, "plain sgd without a clip, as two models step in turns")

    def effort(self, examples: int) -> tuple[int, int]:
        return passes(examples, 2 * self.epochs, self.batch)

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        learner, round = client_state.learner, plan.round
        mine = self._mixture(client_state)
        learner.write(plan.payload[MODEL])
        loss_sum, steps = self._steps(client_state, self.batches(client_state, round), mine, round)
        payload, examples = {MODEL: learner.take()}, self.epochs * len(client_state.train)
        learner.write(mine.of(learnable(learner.read(), client_state.spec)))
        client_state.arrays = {**client_state.arrays, PERSONAL: mine.v}
        client_state.private = {**client_state.private, ALPHA: mine.alpha}
        losses = {"loss": loss_sum / examples, "personal_loss": mine.loss_sum / examples, "alpha": mine.alpha}
        reply = Reply(round, plan.client, payload, examples=len(client_state.train), steps=2 * steps, metrics=losses)
        return tested(reply, evaluate(client_state)) if self.eval_point == "post_local" else reply

    def _mixture(self, client_state: ClientState) -> Mixture:
        """Return the client's v and alpha. Before its first round v is w^0, which the learner holds."""
        v = client_state.arrays.get(PERSONAL) or learnable(client_state.learner.read(), client_state.spec)
        return Mixture(dict(v), float(client_state.private.get(ALPHA, self.alpha)))

    def _steps(self, client_state: ClientState, batches: Batches, mine: Mixture, round: int) -> tuple[float, int]:
        """Take a step of w, which the learner holds, and of v for each batch, both from where the step before led.

        Returns the sum of w's losses and the number of steps of w.
        """
        learner, data = client_state.learner, client_state.data
        key, loss_sum = dropout_key(client_state, round), 0.0
        optimizer = self.local_optimizer(round) if round != UNCOUNTED else self.optimizer_at(self.lr)
        batches = learner.joined(batches)
        for step, batch in enumerate(batches):
            w = learnable(learner.read(), client_state.spec)
            learner.write(mine.of(w))
            slopes = learner.gradient(data, batch, key=(key + step) % 2**64)
            learner.write(w)
            mine.loss_sum += slopes.loss_sum
            self._step(mine, w, slopes, optimizer.lr, adapts=self.adaptive and step == 0)
            loss_sum += learner.fit(data, Listed([batch], Keyed(key, step)), optimizer).loss_sum
        return loss_sum, len(batches)

    def _step(self, mine: Mixture, w: Params, slopes: Gradient, rate: float, adapts: bool) -> None:
        """Step v along alpha times the mixture's gradient and, if asked, alpha along its own gradient, which is
        <v - w, the mixture's gradient>.
        """
        decayed = {
            name: slope + self.weight_decay * mine.mixed(mine.v[name], w[name]) for name, slope in slopes.items()
        }
        along = sum(float(np.vdot(mine.v[name] - w[name], slope)) for name, slope in decayed.items()) if adapts else 0.0
        for name, slope in decayed.items():
            mine.v[name] = (mine.v[name] - rate * mine.alpha * slope).astype(slope.dtype)
        mine.alpha = min(1.0, max(0.0, mine.alpha - rate * along))

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the mixture after both models were trained as in a round. Both begin as the global model."""
        learner = client_state.learner
        learner.write({name: arrays[MODEL][name] for name in client_state.spec.exchanged})
        mine = self._mixture(client_state)
        self._steps(client_state, minibatches(client_state, UNCOUNTED, self.epochs, self.batch), mine, UNCOUNTED)
        learner.write(mine.of(learnable(learner.read(), client_state.spec)))
        yield OwnModel(learner, client_state.data)

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the mixture with the newest global model, after both were trained as in a round."""
        mine, learner = self._mixture(client_state), client_state.learner
        learner.write(plan.payload[MODEL])
        self._steps(client_state, minibatches(client_state, UNCOUNTED, epochs, self.batch), mine, UNCOUNTED)
        learner.write(mine.of(learnable(learner.read(), client_state.spec)))
        yield OwnModel(learner, client_state.data)

"""FedRecon as PFLEGO's authors ran it: the head is trained first, and then the body takes one gradient with the trained
head.

It is PFLEGO in another order. Here all steps of the head come before the one gradient of the body. The original splits
the data into two halves and takes several steps of the body, which this method does not do.

Source  Singhal et al. (NeurIPS 2021) in the form of PFLEGO's released code. ALGORITHMS 7.11
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, dropout_key
from edgefl.methods.head_training import HeadTraining, cut_of
from edgefl.methods.personal_head import HEAD, Personal
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients
from edgefl.methods.server_optimizer import Optimizer, step
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import layer_of
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class FedRecon(HeadTraining):
    """The method FedRecon: a client reconstructs its head, then sends the gradient of the body.

    server  optimizer of the server, for the mean of the bodies' gradients, weighted by the participants' examples
    reset   whether the head is drawn anew in every round, as in the original, whose clients keep nothing

    The gradient has the trained part of the body. The head is private, and all of the head has to be trained.
    """

    name: ClassVar[str] = "fedrecon"
    changes: ClassVar[tuple[str, ...]] = (BODY,)

    beta: float = 0.009
    rho: float = 0.003
    server: Optimizer = "adam"
    reset: bool = False

    # The server.

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload, settings = self.sent(task, state), self.cut(task)
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload, settings=settings) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if BODY in reply.payload:
            accumulator.of(BODY).add(reply.client, reply.payload[BODY], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        replies = accumulator.of(BODY)
        if not replies.clients:
            return state
        names = [name for name in self.body_names(task.spec) if name in replies.total]
        gradient = {name: replies.total[name] / sum(replies.weights) for name in names}
        return step(self.server, state, BODY, gradient, self.scheduled(self.rho, round))

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mine = self._own(client_state, values(plan.payload[BODY]), plan.round)
        mine.head_steps(self.tau, self.head_optimizer(plan.round), self.chunk, cut_of(plan))
        mine.keep_head()
        layers = frozenset(map(layer_of, self.body_names(client_state.spec)))
        key = dropout_key(client_state, plan.round)
        gradient = mine.learner.gradient(mine.samples, client_state.train, layers, chunk=self.chunk, key=key)
        reply = Reply(
            plan.round,
            plan.client,
            payload={BODY: take(gradient, client_state.spec, names=self.body_names(client_state.spec))},
            examples=len(client_state.train),
            steps=self.tau,
            metrics={"loss": gradient.loss_sum / len(client_state.train)},
        )
        return tested(reply, mine.evaluate()) if self.eval_point == "post_local" else reply

    def _own(self, client_state: ClientState, body: Params, round: int) -> Personal:
        if self.reset:
            client_state.arrays = {name: params for name, params in client_state.arrays.items() if name != HEAD}
        return self.personal(client_state, body, round if self.reset else 0)

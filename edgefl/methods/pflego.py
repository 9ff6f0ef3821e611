"""PFLEGO, personalised federated learning with exact gradients: personal heads on a common body.

The file has the server's half and the client's half. In a round a client improves its head on features that it computes
once. Then it takes one gradient of head and body together. The head steps on the client. The body's gradient goes to
the server, which sums the gradients and steps. So the round ends with one step of stochastic gradient descent on the
loss of all clients, whatever the number of head steps before.

The last step of the head is that of Eq. 5. Otherwise the round would not end with such a step. Eq. 3, Algorithm 1 and
the released code leave out the client's share alpha_i.

Source  PFLEGO, Alg. 1, Eq. 1 to 6, tables 6 and 7. ALGORITHMS 6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, dropout_key
from edgefl.methods.head_training import HeadTraining, cut_of
from edgefl.methods.option_checks import check
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients
from edgefl.methods.server_optimizer import Optimizer, step
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class PFLEGO(HeadTraining):
    """The method PFLEGO: personal heads, and one gradient step of the common body in a round.

    tau        number of head steps as in head_training.py, the joint step included. rho is also the learning rate of
               the joint step
    head_step  factor of the gradient in the head's joint step: rho I/r alpha_i ('eq5', exact), or rho I/r ('eq3')
    server     optimizer of the server, for the gradient of the body
    shares     share of a client: its part of the examples of 'all' clients, or of the 'participants' as in the released
               code, whose steps are I/r times longer. Adam gives equal steps for both

    The joint gradient has the trained part of the body. The head is private, and all of the head has to be trained.
    """

    name: ClassVar[str] = "pflego"
    sums_only: ClassVar[bool] = True
    asynchronous: ClassVar[bool] = True
    changes: ClassVar[tuple[str, ...]] = (BODY,)
    former: ClassVar[Mapping[str, str]] = {"weight": "shares"}

    beta: float = 0.006
    rho: float = 0.002
    head_step: Literal["eq5", "eq3"] = "eq5"
    server: Optimizer = "sgd"
    shares: Literal["all", "participants"] = "all"

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        """Make the state before round 1.

        Raises ValueError as HeadTraining does, or if the number of all examples is not known.
        """
        begun = super().start(task, initial)
        check(task.examples > 0, "examples", task.examples, "the training examples of all clients together")
        return begun

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = self.sent(task, state)
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        scale = task.clients / len(chosen)  # I/r
        settings: dict[str, float | int | str] = {
            "scale": scale,
            "examples": task.examples,
            **self.cut(task),
        }  # sum of all N_j
        return [Plan("train", round, client, payload=payload, settings=settings) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if BODY in reply.payload:
            accumulator.of(BODY).add(reply.client, reply.payload[BODY], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        """Take the step theta -= rho I/r sum alpha_i g_i, or Adam's step along that sum (Eq. 4).

        r counts the clients that replied.
        """
        replies = accumulator.of(BODY)
        if not replies.clients:
            return state
        examples = task.examples if self.shares == "all" else sum(replies.weights)
        scale = task.clients / len(replies.clients) / examples
        gradient = {name: scale * replies.total[name] for name in self.body_names(task.spec) if name in replies.total}
        return step(self.server, state, BODY, gradient, self.scheduled(self.rho, round))

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mine = self.personal(client_state, values(plan.payload[BODY]))
        mine.head_steps(self.tau - 1, self.head_optimizer(plan.round), self.chunk, cut_of(plan))
        key = dropout_key(client_state, plan.round)
        gradient = mine.learner.gradient(mine.samples, client_state.train, chunk=self.chunk, key=key)
        head, rate = mine.learner.read(mine.head), self._head_rate(client_state, plan)
        mine.learner.write({name: value - rate * gradient[name] for name, value in head.items()})
        mine.keep_head()
        reply = Reply(
            plan.round,
            plan.client,
            payload={BODY: take(gradient, client_state.spec, names=self.body_names(client_state.spec))},
            examples=len(client_state.train),
            steps=self.tau,
            metrics={"loss": gradient.loss_sum / len(client_state.train)},
        )
        return tested(reply, mine.evaluate()) if self.eval_point == "post_local" else reply

    def _head_rate(self, client_state: ClientState, plan: Plan) -> float:
        """Return rho I/r alpha_i (Eq. 5), or rho I/r (Eq. 3)."""
        share = len(client_state.train) / plan.settings["examples"] if self.head_step == "eq5" else 1.0  # type: ignore[operator]
        return self.scheduled(self.rho, plan.round) * float(plan.settings["scale"]) * share

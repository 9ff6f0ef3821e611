"""FedPer: every client trains the common body together with a head of its own, and the server averages the bodies.

Source  Arivazhagan et al. (arXiv:1912.00818). ALGORITHMS 7.8
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.personal_head import HeadInit, Personal, begin
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.update import values


@dataclass(frozen=True)
class FedPer(LocalTraining):
    """The method FedPer: theta^{t+1} = sum n_k theta_k / sum n_k over the clients that reported. The heads stay on the
    clients.

    head_init   head of a client before its first round (personal_head.py)
    eval_point  'post_local' adds the test result of the client's model after training to a reply. 'none' does not

    The clients share the trained part of the body. The head is private, and all of the head has to be trained.
    """

    name: ClassVar[str] = "fedper"
    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True

    head_init: HeadInit = "torch"
    eval_point: Literal["none", "post_local"] = "none"

    # The server.

    def start(self, task: Task, initial: Params) -> State:
        return begin(initial, task)

    def plan(self, task: Task, state: State, round: int) -> list[Plan]:
        payload = {BODY: take(state.arrays[BODY], task.spec, None, names=task.spec.body)}
        chosen = sample_clients(task, range(task.clients), self.per_round, round)
        return [Plan("train", round, client, payload=payload) for client in chosen]

    def aggregate(self, accumulator: Accumulator, plan: Plan, reply: Reply) -> None:
        if BODY in reply.payload:
            accumulator.of(BODY).add(reply.client, reply.payload[BODY], reply.examples)

    def finish(self, task: Task, state: State, accumulator: Accumulator, round: int) -> State:
        return State({BODY: accumulator.of(BODY).over(state.arrays[BODY])})

    # The client.

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        mine = Personal.of(client_state, values(plan.payload[BODY]), self.head_init)
        fit = mine.learner.fit(mine.samples, self.batches(client_state, plan.round), self.local_optimizer(plan.round))
        mine.keep_head()
        reply = Reply(
            plan.round,
            plan.client,
            payload={BODY: mine.learner.take(names=client_state.spec.body)},
            examples=len(client_state.train),
            steps=fit.steps,
            metrics={"loss": fit.loss_sum / fit.examples},
        )
        return tested(reply, mine.evaluate()) if self.eval_point == "post_local" else reply

    @contextmanager
    def refreshed(self, client_state: ClientState, plan: Plan, epochs: int) -> Iterator[OwnModel]:
        """Yield the model after body and head were trained, as in a round."""
        with self.own(client_state, values(plan.payload[BODY])) as mine:
            yield self.refit(mine, client_state, epochs, self.batch)

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        mine = Personal.of(client_state, shared, self.head_init)
        yield mine.model

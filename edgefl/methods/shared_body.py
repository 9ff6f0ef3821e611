"""The common part of methods whose clients train a common body with local steps under heads of their own.

This module is not a method: fedper.py and fedrep.py say how a client trains. The server averages bodies, and heads stay
on the clients (personal_head.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from edgefl.learning.fit_options import FitOptions
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState, OwnModel
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.personal_head import HeadInit, Personal, begin
from edgefl.methods.plan import Plan, Reply, tested
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec, layer_of


@dataclass(frozen=True)
class SharedBody(EarlyStopping, LocalTraining):
    """The settings of methods with a common body, and the server's half: theta is the mean of the clients' bodies,
    weighted by their training samples.

    head_init   head of a client before its first round (personal_head.py)
    eval_point  'post_local' adds the test result of the client's model after training to a reply. 'none' does not
    """

    keeps_model: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = True

    head_init: HeadInit = "torch"
    eval_point: Literal["none", "post_local"] = "none"

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

    def answer(self, mine: Personal, plan: Plan, loss: float, steps: int) -> Reply:
        """Client: keep the head, and return the reply of a round of `steps` steps with this mean loss."""
        mine.keep_head()
        reply = Reply(
            plan.round,
            plan.client,
            payload={BODY: mine.learner.take(names=mine.client_state.spec.body)},
            examples=len(mine.client_state.train),
            steps=steps,
            metrics={"loss": loss},
        )
        return tested(reply, mine.evaluate()) if self.eval_point == "post_local" else reply

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        assert shared is not None
        mine = Personal.of(client_state, shared, self.head_init)
        yield mine.model

    @property
    def head_passes(self) -> int:
        """The passes over the head of a client that has never taken part."""
        return self.epochs

    @contextmanager
    def newcomer(self, client_state: ClientState, arrays: Mapping[str, Params]) -> Iterator[OwnModel]:
        """Yield the common body under a new head after `head_passes` over the head."""
        with self.own(client_state, arrays[BODY]) as mine:
            yield self.refit(mine, client_state, self.head_passes, self.batch, options=head_steps(client_state.spec))

    @contextmanager
    def judged(self, client_state: ClientState, plan: Plan) -> Iterator[OwnModel]:
        """Yield the body that the learner holds under the client's head."""
        held = client_state.learner.read(client_state.spec.body)
        with self.own(client_state, {name: value.copy() for name, value in held.items()}) as mine:
            yield mine


def head_steps(spec: ModelSpec) -> FitOptions:
    """Return the options of steps of the head, in which the body keeps its bits, running statistics included."""
    return FitOptions(trainable=frozenset(map(layer_of, spec.head)), bn_frozen="freeze")

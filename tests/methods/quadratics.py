"""Clients whose loss is |w - c|^2 / 2 about a centre c of their own: traces that can be followed by hand, in float64.

And rounds without a network: plans, training and replies as a method makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from edgefl.learning.fit_options import FitOptions
from edgefl.learning.learner import SGD, Batches, Evaluation, FitResult, Samples
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph, Node, Params
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.held import Held

GRAPH = Graph((1,), (Node("fc", Linear(1, 1), ("input",)),))
SPEC = ModelSpec.of(GRAPH)
DATA = Samples(np.zeros((8, 1), np.float32), np.zeros(8, np.int32))


def at(value: float) -> Params:
    """The model whose every parameter is `value`."""
    return {name: np.full(param.shape, value) for name, param in SPEC.params.items()}


class Quadratic(Held):
    """A learner of |w - centre|^2 / 2: every batch has the same gradient, w - centre."""

    def __init__(self, centre: float) -> None:
        super().__init__(SPEC, at(0.0))
        self.centre = centre

    def fit(
        self,
        samples: Samples,
        batches: Batches,
        sgd: SGD,
        options: FitOptions = FitOptions(),
    ) -> FitResult:
        pull, linear = options.pull, options.linear
        for _batch in batches:
            for name, w in self.params.items():
                gradient = w - self.centre
                if pull is not None:
                    gradient = gradient + pull[0] * (w - pull[1][name])
                if linear is not None:
                    gradient = gradient + linear[name]
                w -= sgd.lr * gradient
        return FitResult(0.0, 8 * len(batches), len(batches))

    def evaluate(self, samples: Samples, index: Any = None) -> Evaluation:
        return Evaluation(0.0, 0, 1)


def clients(centres: Sequence[float]) -> list[ClientState]:
    """Return one client per centre, each with 8 samples to train on."""
    whole, none = np.arange(8, dtype=np.int32), np.zeros(0, np.int32)
    return [
        ClientState(k, 1, SPEC, Quadratic(c), DATA, whole, none, none)  # type: ignore[arg-type]
        for k, c in enumerate(centres)
    ]


def start(method: Algorithm, client_states: Sequence[ClientState], value: float = 0.0) -> State:
    return method.start(Task(client_states[0].spec, len(client_states), 1), at(value))


def play(
    method: Algorithm,
    client_states: Sequence[ClientState],
    state: State,
    round: int,
    *,
    authorised: Collection[int] | None = None,
    away: Collection[int] = (),
) -> State:
    """The server's state after one round.

    authorised  in place of those that the method chooses
    away        clients that neither receive nor send
    """
    task, accumulator = Task(client_states[0].spec, len(client_states), 1), Accumulator(client_states[0].spec)
    for plan in method.plan(task, state, round):
        if authorised is not None:
            object.__setattr__(plan, "authorised", plan.client in authorised)
        if plan.client not in away:
            reply: Reply = method.train(client_states[plan.client], plan)
            assert reply.payload.keys() == (plan.payload.keys() if plan.authorised else set())
            method.aggregate(accumulator, plan, reply)
    return method.finish(task, state, accumulator, round)


def weight(state: State, group: str = MODEL) -> float:
    """The one number that the model is, as all of its parameters are equal."""
    values = np.unique(np.concatenate([a.reshape(-1) for a in state.arrays[group].values()]))
    assert len(values) == 1
    return float(values[0])

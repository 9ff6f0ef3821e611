"""Personal heads of a model with a label for each token: PFLEGO's round in float64, on both learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgefl.learning import GraphLearner, Samples
from edgefl.learning.learner import Learner
from edgefl.learning.losses import CrossEntropy
from edgefl.methods import PFLEGO, FedPer, FedRecon, FedRep
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.personal_head import CLASSES, HEAD
from edgefl.methods.task import BODY, Task
from edgefl.models.graph import INPUT, Graph, Model, Node
from edgefl.models.graph.operations import Conv1d, Embedding, Linear, Permute
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.torch import TorchLearner
from tests.learning.graphs import model

WORDS, LENGTH = 7, 5
GRAPH = Graph(
    (LENGTH,),
    (
        Node("emb", Embedding(WORDS, 4), (INPUT,)),
        Node("mid", Conv1d(4, 3, 1), ("emb",)),
        Node("head", Linear(3, WORDS), ("mid",)),
    ),
)
SPEC, INITIAL = ModelSpec.of(GRAPH), model(GRAPH).params
LOSS = CrossEntropy()
NONE = np.zeros(0, np.int32)


def client(make: Callable[[Model], Learner], number: int) -> ClientState:
    """A client with 6 training samples of words 0 to 3 alone, whose head has all words, and 2 test samples."""
    draw = np.random.default_rng(number)
    ids, y = draw.integers(0, WORDS, (8, LENGTH)), draw.integers(0, 4, (8, LENGTH)).astype(np.int32)
    y[0, 0] = -100
    rows = np.arange(8, dtype=np.int32)
    return ClientState(
        number, 1, SPEC, make(Model(GRAPH, INITIAL)), Samples(ids * 1.0, y, loss=LOSS), rows[:6], NONE, rows[6:]
    )


def native(begun: Model) -> Learner:
    return GraphLearner(begun, "reference", np.float64)


def by_torch(begun: Model) -> Learner:
    return TorchLearner(begun, dtype=np.float64)


def played(method: Any, make: Callable[[Model], Learner]) -> tuple[dict[str, Any], list[ClientState], list[Any]]:
    """Return the body after a round of two clients, the clients, and their replies."""
    client_states = [client(make, number) for number in range(2)]
    task, accumulator = Task(SPEC, 2, 1, examples=12, graph=GRAPH), Accumulator(SPEC)
    state = method.start(task, {name: value.astype(np.float64) for name, value in INITIAL.items()})
    replies = []
    for plan in method.plan(task, state, 1):
        replies.append(method.train(client_states[plan.client], plan))
        method.aggregate(accumulator, plan, replies[-1])
    return dict(method.finish(task, state, accumulator, 1).arrays[BODY]), client_states, replies


@pytest.mark.parametrize("make", [native, by_torch])
def test_a_round_of_pflego_is_one_gradient_step_on_the_loss_of_all_tokens(make: Callable[[Model], Learner]) -> None:
    """With one step of the head, heads and body move along the gradient of the mean loss, half of it from each client:
    the client's own gradient, that of a whole model with its head.
    """
    method = PFLEGO(per_round=2, tau=1, beta=0.3, rho=0.2)
    body, client_states, _ = played(method, make)
    gradient: dict[str, Any] = {}
    for number, client_state in enumerate(client_states):
        assert CLASSES not in client_state.private
        fresh = client(native, number)
        drawn = method.personal(fresh, {name: INITIAL[name].astype(np.float64) for name in body})
        whole = drawn.learner.gradient(fresh.data, fresh.train)
        for name, value in client_state.arrays[HEAD].items():
            np.testing.assert_allclose(value, drawn.learner.read()[name] - 0.2 * whole[name] / 2, atol=1e-12)
        gradient = {name: gradient.get(name, 0) + whole[name] / 2 for name in body}
    for name, value in body.items():
        np.testing.assert_allclose(value, INITIAL[name] - 0.2 * gradient[name], atol=1e-12)


@pytest.mark.parametrize("method", [PFLEGO(tau=9, beta=0.5), FedRecon(tau=9, beta=0.5), FedPer(lr=0.2), FedRep(lr=0.2)])
def test_methods_with_own_heads_learn_tokens_alike_on_both_learners(method: Any) -> None:
    """The head's steps are on features with places. Nobody trains on words 4 to 6."""
    bodies, scores = [], []
    for make in (native, by_torch):
        body, client_states, replies = played(method, make)
        bodies.append(body)
        scores.append([method.evaluate(each, body).loss_sum for each in client_states])
        assert replies[0].metrics["loss"] < np.log(WORDS) + 0.5
    for name, value in bodies[0].items():
        np.testing.assert_allclose(value, bodies[1][name], atol=1e-9)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


@pytest.mark.parametrize("make", [native, by_torch])
def test_the_classes_may_turn_last_behind_the_head(make: Callable[[Model], Learner], monkeypatch: Any) -> None:
    """As in a module of torch, whose outputs are [N, tokens, classes]."""
    method = PFLEGO(tau=4, beta=0.3)
    expected, _, _ = played(method, make)
    turned = Graph((LENGTH,), (*GRAPH.nodes, Node("turn", Permute((1, 0)), ("head",))))
    monkeypatch.setattr("tests.methods.test_token_heads.GRAPH", turned)
    monkeypatch.setattr("tests.methods.test_token_heads.LOSS", CrossEntropy(class_axis=-1))
    found, _, _ = played(method, make)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-12)

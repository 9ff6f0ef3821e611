"""Every account of a model with frozen parameters, by hand and against what a learner holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear, ReLU
from edgefl.rng import INIT, stream

GRAPH = Graph(
    (10,),
    (
        Node("a", Linear(10, 20), ("input",)),
        Node("r", ReLU(), ("a",)),
        Node("b", Linear(20, 30), ("r",)),
        Node("s", ReLU(), ("b",)),
        Node("c", Linear(30, 5), ("s",)),
    ),
)
FROZEN = replace(GRAPH, frozen=frozenset({"a.weight", "a.bias", "b.weight", "b.bias"}))
HELD = 220 + 630 + 155  # parameters of a, b and c


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        # all weights are held, c alone has a gradient, and c puts out 5 values for each of 2 examples
        ("pfeiffer2023", {"weights": 4 * HELD, "gradients": 4 * 155, "activations": 4 * 2 * 5}),
        ("paper", {"weights": 4 * HELD, "gradients": 4 * 155, "activations": 4 * 2 * 5, "input": 4 * 2 * 10}),
        # the backward pass reads the 30 inputs of c, and no sign of a ReLU
        ("bound", {"weights": 4 * HELD, "gradients": 4 * 155, "inputs": 4 * 2 * 30, "signs": 0}),
    ],
)
def test_accounts_by_hand(account: str, expected: dict[str, int]) -> None:
    parts = estimate(account, TrainingConfiguration("", FROZEN, 2, "full")).parts
    assert {name: parts[name] for name in expected} == expected
    assert sum(parts.values()) == sum(expected.values())


@pytest.mark.parametrize("account", ["pfeiffer2023", "paper", "bound", "exact"])
def test_a_frozen_body_takes_less_in_every_account(account: str) -> None:
    frozen, whole = (estimate(account, TrainingConfiguration("", each, 16, "full")).total for each in (FROZEN, GRAPH))
    assert frozen < whole


def test_the_exact_account_is_what_the_learner_holds() -> None:
    learner = GraphLearner(Model(FROZEN, FROZEN.init(stream(1, INIT))))
    data = Samples(np.zeros((4, 10), np.float32), np.zeros(4, np.int32))
    learner.fit(data, [np.arange(4, dtype=np.int32)], SGD(0.1, momentum=0.9))
    training = TrainingConfiguration("", FROZEN, 4, "full", examples=4, terms=Terms(momentum=True))
    parts, held = estimate("exact", training).parts, learner.memory()
    assert {name: held[name] for name in ("params", "arena", "states", "indices")} == {
        name: parts[name] for name in ("params", "arena", "states", "indices")
    }
    assert held["states"] == 4 * 155

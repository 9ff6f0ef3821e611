"""LG-FedAvg: a common head over bodies of their own, identities, and three rounds against numpy's float64
(ALGORITHMS 7.22).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgefl.methods import FedAvg, LGFedAvg
from edgefl.methods.lg_fedavg import HEAD
from edgefl.methods.task import MODEL
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import Flatten, Linear
from tests.methods.float64_net import (
    RATE,
    batches_of,
    difference,
    doubled,
    mean,
    rounds_of,
    three_layers,
    trained,
)
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = LGFedAvg(**OPTIONS)
ONE_LAYER = Graph((2, 4, 4), (Node("flat", Flatten(), ("input",)), Node("fc", Linear(32, 3), ("flat",))))


def test_three_rounds_are_those_of_the_paper_in_float64() -> None:
    graph = three_layers()
    run = Run(METHOD, graph)
    w = doubled(run.initial)
    head, own = {name: value for name, value in w.items() if name.startswith("fc.")}, dict.fromkeys(range(3), w)
    for round, chosen in rounds_of(run, 3):
        for client in chosen:
            own[client] = trained({**own[client], **head}, batches_of(graph, client, round, 2, 5))
            assert difference(run.clients[client].model_of_its_own, own[client]) < 1e-6
        counts = [len(device(graph, client).train) for client in chosen]
        head = mean([{name: own[client][name] for name in head} for client in chosen], counts)
        assert difference(run.state.arrays[HEAD], head) < 1e-6


def test_a_model_that_is_a_head_is_fedavg_bit_for_bit() -> None:
    """The body is empty, and so is what is personal."""
    runs = [Run(METHOD, ONE_LAYER), Run(FedAvg(**OPTIONS), ONE_LAYER)]
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 3)] == [2, 2, 2]
    assert same_bits(copied(runs[0].state.arrays[HEAD]), copied(runs[1].state.arrays[MODEL]))


def test_heads_alone_travel() -> None:
    """6 x 3 weights and 3 biases in both directions. Running statistics of a body stay."""
    for graph, values in ((three_layers(), 21), (plain(), 75)):
        for plan, reply in Run(METHOD, graph).play(1):
            assert plan.payload.keys() == reply.payload.keys() == {HEAD}
            assert [side.payload[HEAD].count for side in (plan, reply)] == [values, values]


def test_a_refresh_brings_the_newest_head_to_the_clients_body() -> None:
    run = Run(METHOD, three_layers())
    for _ in rounds_of(run, 2):
        pass
    client_state, (plan,) = run.clients[0], METHOD.refreshes(run.task, run.state, 3, [0])
    body = copied(dict(client_state.learner.read(run.task.spec.body)))
    with replace(METHOD, lr=1e-30).refreshed(client_state, plan, 1) as own:
        found = copied(own.learner.read())
    assert same_bits({name: found[name] for name in body}, body)
    assert same_bits({name: found[name] for name in run.task.spec.head}, run.state.arrays[HEAD])


def test_a_head_of_which_nothing_is_trained_is_refused() -> None:
    still = replace(plain(), frozen=frozenset({"fc.weight", "fc.bias"}))
    with pytest.raises(ValueError, match=r"nothing is trained; expected a head that is trained, as clients share the"):
        Run(METHOD, still)
    assert Run(METHOD, replace(plain(), frozen=frozenset({"fc.weight"}))).state.arrays[HEAD].keys() == {"fc.bias"}

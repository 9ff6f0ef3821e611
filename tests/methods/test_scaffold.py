"""SCAFFOLD by hand on quadratics, its invariants, and three rounds against numpy's float64 (ALGORITHMS 7.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.methods import FedAvg, Scaffold
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.scaffold import CONTROL
from edgefl.methods.task import MODEL
from edgefl.models.graph import Params
from tests.methods.float64_net import (
    RATE,
    Net,
    batches_of,
    difference,
    doubled,
    mean,
    rounds_of,
    three_layers,
    trained,
)
from tests.methods.quadratics import clients, play, start, weight
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

CENTRES = [4.0, -8.0, 1.0, 6.0]
BY_HAND = Scaffold(per_round=2, epochs=1, batch=8, lr=0.25)
OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = Scaffold(**OPTIONS)


def control(client_state: Any) -> float:
    return float(client_state.arrays[CONTROL]["fc.bias"][0]) if CONTROL in client_state.arrays else 0.0


def test_two_rounds_by_hand() -> None:
    """From w = 0 a step of 1/4 along w - c leads to 1 and -2. So c_i = (w - x) / (1 * 1/4) is -4 and 8, c is their mean
    2, and w the mean -1/2. In round 2 the steps are along -4.5 + 4 + 2 = 1.5 and 7.5 - 8 + 2 = 1.5, as c corrects all
    of the drift. So both move from -.5 to -.875.
    """
    client_states = clients([4.0, -8.0])
    state = play(BY_HAND, client_states, start(BY_HAND, client_states), 1)
    assert [control(each) for each in client_states] == [-4.0, 8.0]
    assert (weight(state), weight(state, CONTROL)) == (-0.5, 2.0)
    state = play(BY_HAND, client_states, state, 2)
    assert weight(state) == -0.875
    assert [control(each) for each in client_states] == [-4 - 2 + 1.5, 8 - 2 + 1.5]


def test_half_a_server_rate_is_half_the_way() -> None:
    client_states, method = clients([4.0, -8.0]), replace(BY_HAND, server_lr=0.5)
    assert weight(play(method, client_states, start(method, client_states), 1)) == -0.25


def test_c_is_the_mean_of_all_clients_variates() -> None:
    """t_scaffold_c_mean, with half of the clients in each round and a rate that decays."""
    client_states, method = clients(CENTRES), replace(BY_HAND, epochs=3, lr_decay=0.9)
    state = start(method, client_states)
    for round in range(1, 12):
        state = play(method, client_states, state, round)
        assert weight(state, CONTROL) == pytest.approx(np.mean([control(each) for each in client_states]), abs=1e-12)


def test_full_participation_finds_the_optimum_of_the_sum() -> None:
    client_states, method = clients(CENTRES), replace(BY_HAND, per_round=4, epochs=4)
    state = start(method, client_states)
    for round in range(1, 60):
        state = play(method, client_states, state, round)
    assert weight(state) == pytest.approx(np.mean(CENTRES), abs=1e-6)


def test_a_round_without_replies_changes_nothing() -> None:
    client_states = clients([1.0, 8.0])
    state = start(BY_HAND, client_states, 3.0)
    assert play(BY_HAND, client_states, state, 1, away=[0, 1]) is state


def after(method: Algorithm, rounds: int) -> Params:
    run = Run(method, plain())
    for _ in rounds_of(run, rounds):
        pass
    return copied(run.state.arrays[MODEL])


def test_round_one_is_fedavg_bit_for_bit_and_round_two_is_not() -> None:
    """All variates are 0 then. The net has running statistics, which are averaged alike."""
    average = FedAvg(**OPTIONS, weight="uniform")
    assert same_bits(after(METHOD, 1), after(average, 1))
    assert not same_bits(after(METHOD, 2), after(average, 2))


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_three_rounds_are_those_of_the_paper_in_float64(server_lr: float) -> None:
    graph = three_layers()
    run = Run(replace(METHOD, server_lr=server_lr, lr_decay=0.9), graph)
    w = doubled(run.initial)
    zero: Net = {name: np.zeros(value.shape) for name, value in w.items()}
    c, own = zero, dict.fromkeys(range(3), zero)
    for round, chosen in rounds_of(run, 3):
        models, moved, rate = [], [], RATE * 0.9 ** (round - 1)
        for client in chosen:
            batches, mine = batches_of(graph, client, round, 2, 5), own[client]
            x = trained(w, batches, lambda name, slope, own=mine, c=c: slope - own[name] + c[name], rate)
            way = len(batches) * rate
            own = {**own, client: {name: mine[name] - c[name] + (w[name] - x[name]) / way for name in w}}
            models.append(x)
            moved.append({name: own[client][name] - mine[name] for name in w})
        average = mean(models)
        w = {name: w[name] + server_lr * (average[name] - w[name]) for name in w}
        c = {name: c[name] + sum(each[name] for each in moved) / 3 for name in w}
        assert difference(run.state.arrays[MODEL], w) < 1e-6
        assert difference(run.state.arrays[CONTROL], c) < 2e-5  # a move of float32, divided by 6 steps of .1
        for client in chosen:
            assert difference(run.clients[client].arrays[CONTROL], own[client]) < 2e-5


def test_a_round_has_twice_the_values_of_fedavg() -> None:
    """Down and up: 12 x 4 values of bn1 and bn2 less in the variates are the running statistics."""
    run, average = Run(METHOD, plain()), Run(FedAvg(**OPTIONS), plain())
    statistics = sum(value.size for name, value in run.initial.items() if "running" in name)
    for (plan, reply), (dense, _) in zip(run.play(1), average.play(1), strict=True):
        values = 2 * dense.payload[MODEL].count - statistics
        assert [sum(each.count for each in side.payload.values()) for side in (plan, reply)] == [values] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"momentum": 0.5},
            r"optimizer=sgd with momentum=0.5; expected plain sgd: a client's move over steps and rate",
        ),
        ({"optimizer": "adam"}, r"optimizer=adam with momentum=0; expected plain sgd"),
        ({"server_lr": 0.0}, r"server_lr=0.0; expected a finite server_lr > 0"),
    ],
)
def test_what_an_estimate_of_the_gradient_cannot_have_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(METHOD, **change)

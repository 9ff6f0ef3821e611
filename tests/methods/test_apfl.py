"""APFL: FedAvg's model, mixtures at the ends, and three rounds against numpy's float64
(ALGORITHMS 7.23).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.methods import APFL, FedAvg, LocalOnly
from edgefl.methods.apfl import ALPHA, PERSONAL
from edgefl.methods.task import MODEL
from tests.methods.float64_net import (
    RATE,
    batches_of,
    difference,
    doubled,
    gradient,
    mean,
    rounds_of,
    three_layers,
)
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = APFL(**OPTIONS, alpha=0.3)


@pytest.mark.parametrize(
    "change", [{}, {"adaptive": True}, {"weight_decay": 0.1, "lr_decay": 0.5}], ids=["fixed", "adaptive", "decayed"]
)
def test_three_rounds_are_those_of_the_paper_in_float64(change: dict[str, Any]) -> None:
    """Both steps of a batch are taken at the values before it. alpha steps along <v - w, gradient> at the first one."""
    graph, method = three_layers(), replace(METHOD, **change)
    run = Run(method, graph)
    w = doubled(run.initial)
    own, alphas = dict.fromkeys(range(3), w), dict.fromkeys(range(3), 0.3)
    for round, chosen in rounds_of(run, 3):
        models, rate = [], method.rate(round)
        for client in chosen:
            x, v, alpha = w, own[client], alphas[client]
            for step, batch in enumerate(batches_of(graph, client, round, 2, 5)):
                mixture = {name: alpha * v[name] + (1 - alpha) * x[name] for name in w}
                slopes, of_x = gradient(mixture, batch), gradient(x, batch)
                slopes = {name: slope + method.weight_decay * mixture[name] for name, slope in slopes.items()}
                along = sum(float(((v[name] - x[name]) * slopes[name]).sum()) for name in w)
                v = {name: v[name] - rate * alpha * slopes[name] for name in w}
                x = {name: x[name] - rate * (of_x[name] + method.weight_decay * x[name]) for name in w}
                if method.adaptive and step == 0:
                    alpha = min(1.0, max(0.0, alpha - rate * along))
            own, alphas = {**own, client: v}, {**alphas, client: alpha}
            models.append(x)
            client_state = run.clients[client]
            assert difference(client_state.arrays[PERSONAL], v) < 1e-6
            assert client_state.private[ALPHA] == pytest.approx(alpha, abs=1e-6)
            mixture = {name: alpha * v[name] + (1 - alpha) * x[name] for name in w}
            assert difference(client_state.learner.read(), mixture) < 1e-6
        w = mean(models)
        assert difference(run.state.arrays[MODEL], w) < 1e-6
    assert (len(set(alphas.values())) > 1) == method.adaptive


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_global_model_is_fedavgs_bit_for_bit(alpha: float) -> None:
    runs = [Run(replace(METHOD, alpha=alpha), plain()), Run(FedAvg(**OPTIONS), plain())]
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 3)] == [2, 2, 2]
    assert same_bits(*(copied(run.state.arrays[MODEL]) for run in runs))


def test_at_one_end_a_client_trains_alone_and_at_the_other_it_has_its_copy() -> None:
    """With alpha = 1, v is the model of local training up to rounding. With alpha = 0 the mixture is what it sent."""
    alone, local = Run(replace(METHOD, alpha=1.0), three_layers()), Run(LocalOnly(**OPTIONS), three_layers())
    for run in (alone, local):
        for _ in rounds_of(run, 3):
            pass
    for mine, other in zip(alone.clients, local.clients, strict=True):
        if PERSONAL in mine.arrays:
            assert difference(mine.arrays[PERSONAL], other.model_of_its_own) < 1e-6
    copy = Run(replace(METHOD, alpha=0.0), plain())
    for plan, reply in copy.play(1):
        held = copied(copy.clients[plan.client].learner.read())
        assert same_bits(held, {name: block.values for name, block in reply.payload[MODEL].blocks.items()})


def test_a_round_has_fedavgs_bytes_and_twice_its_steps() -> None:
    for plan, reply in Run(METHOD, three_layers()).play(1):
        assert [side.payload[MODEL].count for side in (plan, reply)] == [339, 339]
        assert reply.steps == METHOD.steps(12) == 12


def test_a_refresh_mixes_with_the_newest_global_model_and_keeps_nothing() -> None:
    run = Run(METHOD, three_layers())
    for _ in rounds_of(run, 1):
        pass
    client_state, (plan,) = run.clients[0], METHOD.refreshes(run.task, run.state, 2, [0])
    before = {group: copied(arrays) for group, arrays in client_state.arrays.items()}
    with METHOD.refreshed(client_state, plan, 1) as own:
        assert np.isfinite(own.evaluate(client_state.test).loss_sum)
    assert all(same_bits(arrays, client_state.arrays[group]) for group, arrays in before.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 1.5}, r"alpha=1.5; expected 0 <= alpha <= 1"),
        ({"momentum": 0.9}, r"optimizer=sgd with momentum=0.9 and clip=0; expected plain sgd without a clip"),
        ({"clip": 1.0}, r"optimizer=sgd with momentum=0 and clip=1; expected plain sgd without a clip"),
    ],
)
def test_what_two_models_in_turns_cannot_have_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(METHOD, **change)

"""Ditto: FedAvg's rounds, and personal models that are drawn towards the global one (ALGORITHMS 7.7)."""

from __future__ import annotations

from typing import Any

import pytest

from edgefl import rng
from edgefl.methods import Ditto, FedAvg, LocalOnly, build
from edgefl.methods.client_state import evaluate
from tests.methods.masked_rounds import CLIENTS, Run
from tests.methods.quadratics import at, clients, play, start, weight
from tests.methods.small_models import copied, plain, same_bits

OPTIONS: dict[str, Any] = {"per_round": 2, "batch": 5, "lr": 0.1, "lr_decay": 0.9, "weight_decay": 1e-3}
METHOD = Ditto(**OPTIONS, epochs=2, personal_epochs=3, mu=0.5)


def test_the_global_model_and_the_bytes_are_fedavg_s() -> None:
    """t_ditto_global_is_fedavg, bit for bit, with momentum too."""
    for momentum in (0.0, 0.9):
        mine = Run(Ditto(**OPTIONS, momentum=momentum), plain())
        theirs = Run(FedAvg(**OPTIONS, momentum=momentum, epochs=2), plain())
        for _ in range(3):
            for (plan, reply), (other, answer) in zip(mine.play(), theirs.play(), strict=True):
                assert (plan.client, plan.payload, reply.payload) == (other.client, other.payload, answer.payload)
                assert reply.metrics["loss"] == answer.metrics["loss"]
            assert same_bits(mine.model, theirs.model)


def test_without_a_draw_personal_models_are_those_of_local_training() -> None:
    mine, alone = Run(Ditto(**OPTIONS, mu=0.0), plain()), Run(LocalOnly(**OPTIONS, epochs=3), plain())
    drawn = Run(Ditto(**OPTIONS, mu=0.5), plain())
    for _ in range(3):
        trained = {plan.client for plan, _ in mine.play()}
        before = [copied(client_state.learner.read()) for client_state in alone.clients]
        alone.play()
        drawn.play()
        for client, (one, other) in enumerate(zip(mine.clients, alone.clients, strict=True)):
            assert same_bits(copied(one.learner.read()), copied(other.learner.read()))
            assert same_bits(before[client], copied(one.learner.read())) == (client not in trained)
    assert not same_bits(copied(drawn.clients[0].learner.read()), copied(mine.clients[0].learner.read()))


def test_two_clients_follow_the_trace_by_hand() -> None:
    """Centres 4 and -8, eta = 1/4, mu = 1, one step each: w is the mean of the copies, v is drawn to the w it got."""
    method, client_states = (
        Ditto(per_round=2, epochs=1, personal_epochs=1, batch=8, lr=0.25, mu=1.0),
        clients([4.0, -8.0]),
    )
    state = start(method, client_states)
    w, v = 0.0, [0.0, 0.0]
    for round in (1, 2, 3):
        copies = [w - 0.25 * (w - centre) for centre in (4.0, -8.0)]
        v = [each - 0.25 * ((each - centre) + (each - w)) for each, centre in zip(v, (4.0, -8.0), strict=True)]
        state = play(method, client_states, state, round)
        w = sum(copies) / 2
        assert weight(state) == w
        for client_state, each in zip(client_states, v, strict=True):
            assert all((client_state.learner.read()[name] == value).all() for name, value in at(each).items())


def test_a_client_is_tested_with_its_own_model_and_counts_both_kinds_of_epochs() -> None:
    run = Run(METHOD, plain())
    for plan, reply in run.play():
        client_state = run.clients[plan.client]
        assert reply.steps == METHOD.steps(12) == 5 * 3 and METHOD.effort(12) == (15, 60)
        assert METHOD.evaluate(client_state, None) == evaluate(client_state)
    assert METHOD.scored(run.state.arrays) == "personal" and METHOD.keeps_model
    untouched = next(
        client
        for client in range(CLIENTS)
        if client not in {plan.client for plan in METHOD.plan(run.task, run.state, 1)}
    )
    first = plain().init(rng.stream(1, rng.INIT))
    assert same_bits(copied(run.clients[untouched].learner.read()), first)
    told = Run(Ditto(**OPTIONS, eval_point="post_local"), plain())
    for plan, reply in told.play():
        found = evaluate(told.clients[plan.client])
        assert (reply.metrics["correct"], reply.metrics["tested"]) == (found.correct, found.examples)


def test_settings_out_of_range_are_refused() -> None:
    assert build("ditto", {}) == Ditto() == Ditto(mu=0.5, epochs=2, personal_epochs=3)
    for name, value in (("mu", -0.5), ("mu", float("inf")), ("personal_epochs", 0)):
        with pytest.raises(ValueError, match=f"{name}={value}; expected"):
            Ditto(**{name: value})

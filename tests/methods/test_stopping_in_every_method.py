"""Early stopping as a setting: which methods have it, whose loss decides, and what the server does with who stops."""

from __future__ import annotations

from typing import Any

import pytest

from edgefl.methods import METHODS, build, settings_of
from edgefl.methods.early_stopping import train
from edgefl.methods.personal_head import Personal
from edgefl.methods.task import BODY, MODEL
from edgefl.models.neurons.update import values
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import CLIENTS, OPTIONS, OWN, Run, partly_frozen

WITH = sorted(name for name in METHODS if "es" in settings_of(name) and not name.endswith("-es"))
WITHOUT = ("fedumf", "feddyn", "feddc", "fedumf-feddc", "fedspa", "fedspa-rsm", "fedselect", "subfedavg", "prunefl")
NO_STATISTICS = ("pflego", "fedrecon")


def options(name: str) -> dict[str, Any]:
    return {**OPTIONS, **OWN.get(name, {}), "momentum": 0.0, "per_round": CLIENTS}


def run_of(label: str) -> Run:
    name = label.partition(":")[0]
    return Run(build(label, options(name)), partly_frozen() if name in NO_STATISTICS else plain())


def test_the_methods_with_the_setting_are_these() -> None:
    assert set(WITH) == set(METHODS) - {*WITHOUT, "fedspu-es", "fedspu-cached-es"}
    for name in WITHOUT:
        with pytest.raises(ValueError, match=f"es=1 is not a hyper-parameter of {name}, for which early stopping"):
            build(f"{name}:es=1", {})


@pytest.mark.parametrize("name", WITH)
def test_a_client_whose_loss_rises_is_averaged_once_more_and_leaves(name: str) -> None:
    """Client 1 is told that its last L was far below. Until it is left out, rounds have the bits of rounds without."""
    run, plainly = run_of(f"{name}:es=1:es_set=test"), run_of(name)
    assert run.method.remembers
    first = {plan.client: reply for plan, reply in run.play(1)}
    assert {reply.status for reply in first.values()} == {"on"}
    assert all(each.private["L_prev"] == first[each.client].metrics["L"] for each in run.clients)
    assert len(list(plainly.play(1))) == CLIENTS
    run.clients[1].private["L_prev"] = -1e9
    for each in (run.clients[0], run.clients[2]):
        each.private["L_prev"] = 1e9
    second = {plan.client: reply.status for plan, reply in run.play(2)}
    assert second == {0: "on", 1: "stopped", 2: "on"}
    assert len(list(plainly.play(2))) == CLIENTS
    for part, arrays in plainly.state.arrays.items():
        assert same_bits(copied(arrays), copied(run.state.arrays[part])), part
    assert (run.state.values["running"], run.state.values["round_lt_C"]) == ([0, 2], 2)
    assert {plan.client for plan, _ in run.play(3)} == {0, 2}
    assert run.state.values["running"] == [0, 2] or run.state.values["round_empty"] is None


@pytest.mark.parametrize("name", WITH)
def test_a_client_that_stopped_answers_without_training(name: str) -> None:
    """Its device asks for nothing of the learner, and the server accepts the empty reply."""
    run = run_of(f"{name}:es=1:es_set=test")
    list(run.play(1))
    run.clients[0].private["status"] = "stopped"
    before = copied(run.clients[0].learner.read())
    plan = next(plan for plan in run.method.plan(run.task, run.state, 2) if plan.client == 0)
    reply = train(run.method, run.clients[0], plan)
    assert (reply.status, dict(reply.payload), reply.steps) == ("stopped", {}, 0)
    assert same_bits(before, copied(run.clients[0].learner.read()))


@pytest.mark.parametrize(
    "name", ["fedavg", "fedprox", "random-dropout:scale=0", "fedmp", "fedper", "fedrep:head_layers=2"]
)
def test_the_loss_that_decides_is_that_of_the_model_that_was_trained(name: str) -> None:
    """L = .7 L_train + .3 L_val, with L_val by another learner, from the values that the client sent."""
    run = run_of(f"{name}:es=1")
    for plan, reply in run.play(1):
        each, model = run.clients[plan.client], device(plain(), plan.client)
        model.learner.write({n: run.initial[n] for n in run.task.spec.exchanged})
        if MODEL in reply.payload:
            model.learner.write(reply.payload[MODEL])
            part = model.learner if plan.selection is None else model.learner.sub(plan.selection)
            held = part.evaluate(each.data, each.validation)
        else:
            model.data, model.arrays, model.private = each.data, each.arrays, dict(each.private)
            held = Personal.of(model, values(reply.payload[BODY]), "torch").model.evaluate(each.validation)
        expected = 0.7 * reply.metrics["loss"] + 0.3 * held.loss_sum / len(each.validation)
        assert reply.metrics["L"] == pytest.approx(expected, rel=1e-6)

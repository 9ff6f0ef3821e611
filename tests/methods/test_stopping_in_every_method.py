"""Early stopping as a setting: which methods have it, whose loss decides, and what the server does with who stops."""

from __future__ import annotations

from dataclasses import make_dataclass, replace
from typing import Any

import numpy as np
import pytest

from edgefl.methods import METHODS, build, settings_of
from edgefl.methods.early_stopping import plans, train
from edgefl.methods.feddc import DRIFT, GRADIENT
from edgefl.methods.fedumf import DELTA
from edgefl.methods.personal_head import Personal
from edgefl.methods.plan import refuse
from edgefl.methods.task import BODY, MODEL
from edgefl.models.neurons.update import mask_of, values
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import CLIENTS, OPTIONS, OWN, Run, partly_frozen
from tests.server.played import Sum

WITH = sorted(name for name in METHODS if "es" in settings_of(name) and not name.endswith("-es"))
NO_STATISTICS = ("pflego", "fedrecon")
SMALLER = ("random-dropout:scale=0", "fedmp")
JUDGED = ("fedavg", "fedprox", *SMALLER, "fedper", "fedrep", "fedumf", "feddyn", "feddc", "subfedavg", "prunefl")


def options(name: str) -> dict[str, Any]:
    return {**OPTIONS, **OWN.get(name, {}), "momentum": 0.0, "per_round": CLIENTS, "initial_rounds": 0}


def run_of(label: str) -> Run:
    name = label.partition(":")[0]
    return Run(build(label, options(name)), partly_frozen() if name in NO_STATISTICS else plain())


def test_every_method_of_edgefl_has_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method from outside edgefl that lacks it is named in the refusal."""
    assert set(WITH) == set(METHODS) - {"fedspu-es", "fedspu-cached-es"}
    monkeypatch.setitem(METHODS, "plain", make_dataclass("Plain", [], bases=(Sum,), frozen=True))
    with pytest.raises(ValueError, match="es=1 is not a hyper-parameter of plain, for which early stopping is not"):
        build("plain:es=1", {})


@pytest.mark.parametrize("name", WITH)
def test_a_client_whose_loss_rises_is_averaged_once_more_and_leaves(name: str) -> None:
    """Client 1 is told that its last L was far below. Until it is left out, rounds have the bits of rounds without.
    Afterwards its device asks for nothing of the learner, and its reply is empty.
    """
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
    third = plans(run.method, run.task, run.state, 3)
    assert [plan.client for plan in third] == [0, 2]
    before = copied(run.clients[1].learner.read())
    again = train(run.method, run.clients[1], replace(third[0], client=1))
    assert (again.status, dict(again.payload), again.steps) == ("stopped", {}, 0)
    assert refuse(replace(third[0], client=1), again) is None
    assert same_bits(before, copied(run.clients[1].learner.read()))


@pytest.mark.parametrize("name", [*JUDGED, "fedrep:head_layers=2"])
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


@pytest.mark.parametrize("name", ["fedspa", "fedspa-rsm"])
def test_the_loss_that_decides_in_fedspa_is_that_of_the_values_that_were_sent_less_their_change(name: str) -> None:
    run = run_of(f"{name}:es=1")
    for plan, reply in run.play(1):
        each, model, sent = run.clients[plan.client], device(plain(), plan.client), plan.payload[MODEL]
        model.learner.restrict(mask_of(sent))
        changes = reply.payload[MODEL].blocks
        blocks = {n: replace(b, values=b.values - changes[n].values) for n, b in sent.blocks.items()}
        model.learner.write(replace(sent, blocks=blocks))
        held = model.learner.evaluate(each.data, each.validation)
        expected = 0.7 * reply.metrics["loss"] + 0.3 * held.loss_sum / len(each.validation)
        assert reply.metrics["L"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("name", "parts"), [("feddyn", [GRADIENT]), ("feddc", [GRADIENT, DRIFT])])
def test_drifts_on_the_server_stay_the_means_over_all_clients_after_one_has_stopped(name: str, parts: Any) -> None:
    """The client's last reply still counts, and its own drift stays as it was."""
    run = run_of(f"{name}:es=1:es_set=test:es_tolerance=1e6")
    list(run.play(1))
    run.clients[1].private["L_prev"] = -1e9
    list(run.play(2))
    kept = copied(run.clients[1].arrays[GRADIENT])
    assert [plan.client for plan, _ in run.play(3)] == [0, 2]
    assert same_bits(kept, copied(run.clients[1].arrays[GRADIENT]))
    for part in parts:
        for parameter, mean in run.state.arrays[part].items():
            own = np.mean([each.arrays[part][parameter].astype(np.float64) for each in run.clients], axis=0)
            np.testing.assert_allclose(mean, own, rtol=0, atol=1e-6 * max(1.0, float(abs(own).max())))


@pytest.mark.parametrize("name", ["fedumf", "fedumf-feddc"])
def test_a_client_that_stops_drops_the_change_that_it_may_no_longer_send(name: str) -> None:
    """One client of three may send in a round. Both others have a change, and the one that stops drops its change."""
    run = Run(build(f"{name}:es=1:es_set=test:es_tolerance=1e6", {**options(name), "per_round": 1}), plain())
    first = [plan.client for plan, _ in run.play(1) if plan.authorised]
    assert [DELTA in each.arrays for each in run.clients] == [[k] != first for k in range(CLIENTS)]
    second = plans(run.method, run.task, run.state, 2)
    leaves = next(plan.client for plan in second if not plan.authorised)
    run.clients[leaves].private["L_prev"] = -1e9
    list(run.play(2))
    left = run.clients[leaves]
    assert (left.private["status"], DELTA in left.arrays, "round" in left.private) == ("stopped", False, False)
    third = plans(run.method, run.task, run.state, 3)
    assert [plan.client for plan in third] == [k for k in range(CLIENTS) if k != leaves]
    assert sum(plan.authorised for plan in third) == 1


def test_the_search_for_prunefls_first_mask_stops_nobody() -> None:
    """Client 0 searches in round 1. Its loss counts from round 2 on."""
    run = Run(build("prunefl:es=1:es_set=test", {**options("prunefl"), "initial_rounds": 1}), plain())
    run.clients[0].private["L_prev"] = -1e9
    assert [(plan.client, reply.status, "L" in reply.metrics) for plan, reply in run.play(1)] == [(0, "on", False)]
    assert {plan.client: reply.status for plan, reply in run.play(2)} == {0: "stopped", 1: "on", 2: "on"}

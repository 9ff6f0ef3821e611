"""Replies to plans of earlier rounds: their factors, and each coordinate beside a computation by hand in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.experiment.settings import Experiment
from edgefl.methods import METHODS, PFLEGO, FedSPU, build
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds import asynchronous
from edgefl.methods.rounds.asynchronous import AsynchronousRounds, StalenessFactor
from edgefl.methods.rounds.round_closing import AggregationSettings, close
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import BatchNorm1d, Linear
from edgefl.models.neurons.gather import put, take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet

NODES = (
    Node("fc1", Linear(3, 8), ("input",)),
    Node("bn", BatchNorm1d(8), ("fc1",)),
    Node("fc2", Linear(8, 3), ("bn",)),
)
GRAPH = Graph((3,), NODES)
SPEC = ModelSpec.of(GRAPH)
INITIAL = GRAPH.init(rng.stream(1, rng.INIT))
TASK = Task(SPEC, 4, seed=1, examples=30, graph=GRAPH)
PRESENT = 3


def model(seed: int) -> dict[str, Any]:
    """Return parameters drawn from 0 to 1."""
    stream = rng.stream(seed, rng.DATA)
    return {name: stream.uniform(v.size).astype(v.dtype).reshape(v.shape) for name, v in INITIAL.items()}


def state(round: int) -> State:
    """Return the state before a round."""
    return State({MODEL: model(round)}, {"running": [0, 1, 2, 3], "seen": []})


def plan(client: int, round: int, p: float = 0.5) -> Plan:
    neurons = NeuronSet.draw(SPEC, p, rng.stream(1, rng.NEURONS, client=client, round=round))
    return Plan("train", round, client, neurons, {MODEL: take(model(round), SPEC, neurons)})


def reply(of: Plan, params: Mapping[str, Any], examples: int) -> Reply:
    assert of.selection is not None
    return Reply(of.round, of.client, {MODEL: take(params, SPEC, of.selection)}, of.selection.hash(), examples, 1)


def trained(of: Plan) -> dict[str, Any]:
    """Return 1 at each coordinate that a plan trains, and 0 elsewhere."""
    zeros = {name: np.zeros_like(value) for name, value in INITIAL.items()}
    put(zeros, take({name: np.ones_like(value) for name, value in INITIAL.items()}, SPEC, of.selection))
    return zeros


@pytest.mark.parametrize("how", ["none", "step", "step:2", "weight", "weight:2"])
def test_a_coordinate_moves_by_the_changes_of_those_who_trained_it(how: str) -> None:
    """Clients 1, 2 and 3 have tasks of rounds 1, 2 and 3, and 5, 7 and 9 samples."""
    plans = [plan(client, client) for client in (1, 2, PRESENT)]
    accepted = [(each, reply(each, model(10 + each.client), 3 + 2 * each.client)) for each in plans]
    settings = AggregationSettings(staleness=StalenessFactor.parse(how))
    before = {1: state(1), 2: state(2)}
    after = close(TASK, FedSPU(), state(PRESENT), accepted, PRESENT, settings, sent=before).state.arrays[MODEL]
    kind, exponent = how.partition(":")[0], float(how.partition(":")[2] or 0.5)
    for name, now in model(PRESENT).items():
        total, weight = np.zeros(now.shape), np.zeros(now.shape)
        for each, (_, its) in zip(plans, accepted, strict=True):
            factor = 1.0 if kind == "none" else (PRESENT - each.round + 1) ** -exponent
            start = model(each.round if SPEC.params[name].kind == "learn" else PRESENT)[name].astype(np.float64)
            total += trained(each)[name] * factor * its.examples * (model(10 + each.client)[name] - start)
            weight += trained(each)[name] * its.examples * (factor if kind == "weight" else 1.0)
        expected = now + np.divide(total, weight, out=np.zeros(now.shape), where=weight > 0)
        np.testing.assert_allclose(after[name], expected, rtol=1e-6, atol=1e-6)
        assert np.array_equal(after[name][weight == 0], now[weight == 0])


def test_many_stale_replies_leave_a_variance_above_0() -> None:
    """Each of three clients began with a variance of 1 and saw .1, which is the present variance."""
    before, low = state(1), model(5)
    before.arrays[MODEL]["bn.running_var"] = np.ones(8, np.float32)
    low["bn.running_var"] = np.full(8, 0.1, np.float32)
    present = replace(state(PRESENT), arrays={MODEL: low})
    plans = [plan(client, 1, p=1.0) for client in (0, 1, 2)]
    accepted = [(each, reply(each, low, 5)) for each in plans]
    sent = dict.fromkeys((0, 1, 2), before)
    for how in ("none", "step", "weight"):
        settings = AggregationSettings(staleness=StalenessFactor.parse(how))
        after = close(TASK, FedSPU(), present, accepted, PRESENT, settings, sent=sent).state.arrays[MODEL]
        np.testing.assert_allclose(after["bn.running_var"], 0.1, rtol=1e-6)


@pytest.mark.parametrize(("how", "expected"), [("step:1", (1 / 2 + 1) / 2), ("weight:1", (1 / 2 + 1) / 2)])
def test_a_gradient_is_multiplied_where_its_client_is_late(how: str, expected: float) -> None:
    """PFLEGO's step is proportional to the sum of n g. A gradient that is one round stale counts half in both ways."""
    method = PFLEGO(rho=0.1, per_round=2)
    names = method.body_names(SPEC)
    body = {name: np.zeros_like(INITIAL[name]) for name in names}
    ones = {name: np.ones_like(value) for name, value in INITIAL.items()}
    states = [State({BODY: body}), State({BODY: body})]
    plans = [
        Plan("train", round, client, payload={BODY: take(ones, SPEC, names=names)})
        for client, round in ((0, 1), (1, 2))
    ]
    accepted = [(each, Reply(each.round, each.client, each.payload, b"", 5, 1)) for each in plans]
    off = replace(AggregationSettings(), staleness=StalenessFactor.parse("none"))
    fresh = close(TASK, method, states[1], accepted, 2, off, sent={0: states[0]}).state.arrays[BODY]
    late = replace(off, staleness=StalenessFactor.parse(how))
    stale = close(TASK, method, states[1], accepted, 2, late, sent={0: states[0]}).state.arrays[BODY]
    name = next(each for each in names if SPEC.params[each].kind == "learn")
    np.testing.assert_allclose(stale[name], expected * fresh[name], rtol=1e-6)


def test_the_factor_falls_with_staleness() -> None:
    assert [StalenessFactor("step", 0.5).factor(each) for each in (0, 3)] == [1.0, 0.5]
    assert StalenessFactor.parse("weight:2") == StalenessFactor("weight", 2.0)
    for text in ("", "constant", "step:", "step:-1", "weight:inf", "none:1", "step:x"):
        with pytest.raises(ValueError, match=f"staleness={text}; expected none, step:A or weight:A"):
            StalenessFactor.parse(text)


def test_a_task_is_too_old_beyond_the_limit() -> None:
    rounds = AsynchronousRounds(buffer=1, tasks=2, max_staleness=2)
    assert [rounds.is_too_old(1, round) for round in (3, 4)] == [False, True]


ABLE = {
    "fedavg", "fedavg-ft", "fedprox", "ditto", "fedper", "fedrep", "fedspu", "fedspu-es", "fedspu-cached",
    "fedspu-cached-es", "random-dropout", "fjord", "pflego",
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_whose_server_needs_whole_rounds_are_refused_by_name(name: str) -> None:
    method: Algorithm = build(name, {})
    why = asynchronous.problem(method)
    assert (why == "") == (name in ABLE)
    assert not why or f"method {method.name} has no asynchronous rounds" in why


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"buffer": 6, "per_round": 5}, "buffer=6; expected 0 <= buffer <= 5, the clients per round"),
        ({"buffer": 2, "max_staleness": -1}, "max_staleness=-1; expected max_staleness >= 0"),
        ({"buffer": 2, "staleness": "late"}, "staleness=late; expected none"),
        ({"buffer": 2, "aggregation": "exact"}, "aggregation=exact with buffer=2; expected aggregation=mean"),
        ({"buffer": 2, "devices": "mixed", "deadline_s": 5.0}, "deadline_s=5 with buffer=2; expected max_staleness"),
        ({"buffer": 2, "diagnose": True}, "diagnose with buffer=2; expected rounds that wait"),
    ],
)
def test_settings_that_do_not_go_together_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Experiment(methods=("fedspu",), **settings)


def test_a_method_that_needs_rounds_is_refused_before_anything_begins() -> None:
    with pytest.raises(ValueError, match="buffer=2: method scaffold has no asynchronous rounds"):
        Experiment(methods=("scaffold",), buffer=2).algorithms()
    with pytest.raises(ValueError, match="buffer=2: method fedspu with draws=shared"):
        Experiment(methods=("fedspu:draws=shared",), buffer=2).algorithms()

"""Clients that have never taken part: what each method makes of the server's arrays for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, FitOptions
from edgefl.methods import METHODS, build
from edgefl.methods.client_state import ClientState, OwnModel, minibatches
from edgefl.methods.lg_fedavg import HEAD
from edgefl.methods.task import BODY, MODEL
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec, layer_of
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import CLIENTS, OPTIONS, OWN, partly_frozen

SPEC = ModelSpec.of(plain())
NEW = 7  # id of the newcomer
UNCHANGED = ("fedavg", "fedprox", "scaffold", "fedumf", "feddyn", "feddc", "fedumf-feddc", "subsampling", "prunefl",
             "random-dropout", "fedmp", "hermes", "subfedavg", "fjord")  # fmt: skip
TRAINED = {  # methods whose newcomer trains the whole model for two epochs, in the same way with these options
    "fedavg:ft=2": {},
    "fedavg-ft": {"ft_epochs": 2},
    "fedspu": {},
    "fedspu-cached": {},
    "fedselect": {},
    "ditto": {"mu": 0.0, "personal_epochs": 2},
    "apfl": {"alpha": 0.0},
    "fedbabu": {"ft_epochs": 2},
}


def arrays() -> dict[str, Params]:
    """The server's arrays: other values than w^0, without a round."""
    model = {name: value + np.float32(0.01) for name, value in plain().init(_stream()).items()}
    return {MODEL: model}


def _stream() -> rng.Stream:
    return rng.stream(5, rng.INIT)


def newcomer() -> ClientState:
    return device(plain(), NEW)


def made(label: str, server: dict[str, Params], **more: Any) -> Params:
    """The parameters of the newcomer's model."""
    name = label.partition(":")[0]
    method = build(label, {**OPTIONS, **OWN.get(name, {}), "momentum": 0.0, **more})
    with method.newcomer(newcomer(), server) as mine:
        assert isinstance(mine, OwnModel)
        assert mine.evaluate(newcomer().test).examples == len(newcomer().test)
        return copied(mine.learner.read())


def test_the_methods_that_have_something_for_newcomers_are_these() -> None:
    assert [name for name, make in METHODS.items() if not make().has_newcomers] == ["local"]


@pytest.mark.parametrize("name", UNCHANGED)
def test_without_adaptation_a_newcomer_has_the_model_of_all_clients(name: str) -> None:
    assert same_bits(made(name, arrays()), copied(arrays()[MODEL]))


@pytest.mark.parametrize("label", TRAINED)
def test_a_newcomer_trains_the_whole_model_from_the_servers_values(label: str) -> None:
    """Two epochs of batches of 5 at .1, in the order of round 0."""
    by_hand = newcomer()
    by_hand.learner.write(arrays()[MODEL])
    by_hand.learner.fit(by_hand.data, minibatches(by_hand, 0, 2, 5), SGD(0.1))
    assert same_bits(made(label, arrays(), **TRAINED[label]), copied(by_hand.learner.read()))


@pytest.mark.parametrize(("name", "passes"), [("fedper", 2), ("fedrep", 3)])
def test_a_newcomer_of_a_common_body_trains_a_new_head_alone(name: str, passes: int) -> None:
    server = {BODY: {parameter: arrays()[MODEL][parameter] for parameter in SPEC.body}}
    method = build(name, {**OPTIONS, "momentum": 0.0, "head_epochs": 3})
    with method.own(newcomer(), server[BODY]) as untrained:
        head = frozenset(map(layer_of, SPEC.head))
        batches = minibatches(newcomer(), 0, passes, 5)
        options = FitOptions(trainable=head, bn_frozen="freeze")
        untrained.learner.fit(untrained.samples, batches, method.optimizer_at(0.1), options)
        expected = copied(untrained.learner.read())
    found = made(name, server, head_epochs=3)
    assert same_bits(found, expected)
    assert same_bits({n: found[n] for n in SPEC.body}, copied(server[BODY]))


@pytest.mark.parametrize("name", ["pflego", "fedrecon"])
def test_a_newcomer_of_a_head_on_features_takes_tau_steps_of_its_head(name: str) -> None:
    """beta = 0 leaves the head as it was drawn, and another beta moves the head alone."""
    graph = partly_frozen()
    body = {parameter: graph.init(_stream())[parameter] for parameter in ModelSpec.of(graph).body}
    models = []
    for beta in (0.0, 0.1):
        method = build(name, {**OPTIONS, **OWN[name], "momentum": 0.0, "beta": beta, "head_init": "uniform"})
        with method.newcomer(device(graph, NEW), {BODY: body}) as mine:
            models.append(copied(mine.learner.read()))
    still, moved = models
    assert all(np.array_equal(still[n], moved[n]) and np.array_equal(still[n], body[n]) for n in body)
    assert not np.array_equal(still["fc.weight"], moved["fc.weight"])


def test_a_newcomer_of_lg_fedavg_trains_a_new_body_under_the_common_head() -> None:
    server = {HEAD: {parameter: arrays()[MODEL][parameter] for parameter in SPEC.head}}
    by_hand = newcomer()
    by_hand.learner.write(server[HEAD])
    method = build("lg-fedavg", OPTIONS | {"momentum": 0.0})
    by_hand.learner.fit(by_hand.data, minibatches(by_hand, 0, 2, 5), method.optimizer_at(0.1))
    assert same_bits(made("lg-fedavg", server), copied(by_hand.learner.read()))


@pytest.mark.parametrize("name", ["fedspa", "fedspa-rsm"])
def test_a_newcomer_of_fedspa_has_the_model_at_its_first_mask(name: str) -> None:
    method = build(name, OPTIONS)
    bits, found = method.first_mask(SPEC, newcomer().seed, NEW).bits, made(name, arrays())
    for parameter, value in arrays()[MODEL].items():
        np.testing.assert_array_equal(found[parameter], np.where(bits.get(parameter, True), value, 0))
    assert bits and NEW >= CLIENTS

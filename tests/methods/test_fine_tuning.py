"""Fine-tuning before a test as a setting: where it is defined, where it is refused, and that rounds do not change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import METHODS, FedAvg, FedAvgFT, PruneFL, build
from edgefl.methods.task import MODEL
from edgefl.models.neurons.density import weights
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_frozen import OPTIONS, OWN, Run

COMMON = (  # methods that test the model of all clients
    "fedavg", "fedprox", "scaffold", "fedumf", "feddyn", "feddc", "fedumf-feddc", "subsampling", "prunefl",
    "random-dropout", "fedmp",
)  # fmt: skip
OF_THEIR_OWN = ("fedavg-ft", "ditto", "apfl", "fjord", "hermes")
MODEL_OF_ALL = plain().init(rng.stream(5, rng.INIT))


def options(name: str) -> dict[str, Any]:
    return {**OPTIONS, **OWN.get(name, {}), "momentum": 0.0}


@pytest.mark.parametrize("name", COMMON)
def test_a_client_is_tested_as_after_fedavg_and_fine_tuning(name: str) -> None:
    """The test is that of `fedavg-ft` on the same model, whichever method made it."""
    method, control = build(f"{name}:ft=2", options(name)), FedAvgFT(batch=5, lr=0.1, ft_epochs=2)
    assert method.scored([MODEL]) == "adapted"
    shared = method.shared({MODEL: MODEL_OF_ALL})
    before = copied(MODEL_OF_ALL)
    found = method.evaluate(device(plain()), shared)
    assert found == control.evaluate(device(plain()), MODEL_OF_ALL)
    assert same_bits(MODEL_OF_ALL, before)
    plainly = build(name, options(name))
    assert plainly.scored([MODEL]) is None and plainly.shared({MODEL: MODEL_OF_ALL}) is None


@pytest.mark.parametrize("name", ["scaffold", "prunefl", "random-dropout", "fedmp"])
def test_rounds_have_the_bits_that_they_have_without(name: str) -> None:
    """Also where clients are tested between two rounds."""
    states = []
    for label in (name, f"{name}:ft=1"):
        run = Run(build(label, options(name)), plain())
        for round in (1, 2):
            for _ in run.play(round):
                pass
            if label != name:
                for client_state in run.clients:
                    run.method.evaluate(client_state, run.method.shared(run.state.arrays))
        states.append(copied(run.state.arrays[MODEL]))
    assert same_bits(*states)


def test_a_sparse_model_stays_sparse() -> None:
    method, client_state = PruneFL(batch=5, lr=0.1, ft=2), device(plain())
    thin = {name: value.copy() for name, value in MODEL_OF_ALL.items()}
    for name in weights(client_state.spec):
        thin[name].reshape(-1)[::2] = 0
    with method.own(client_state, thin) as own:
        found = copied(own.learner.read())
    assert not any(found[name].reshape(-1)[::2].any() for name in weights(client_state.spec))
    assert not np.array_equal(found["conv2.weight"], thin["conv2.weight"])


@pytest.mark.parametrize(
    ("part", "moved"), [("head", {"fc.weight", "fc.bias"}), ("body", {"conv1.weight", "bn1.bias"})]
)
def test_a_part_alone_may_be_fine_tuned(part: Any, moved: set[str]) -> None:
    method = FedAvg(batch=5, lr=0.1, ft=1, ft_part=part)
    with method.own(device(plain()), MODEL_OF_ALL) as own:
        found = {n for n, value in own.learner.read().items() if value.tobytes() != MODEL_OF_ALL[n].tobytes()}
    assert moved <= found and ("fc.weight" in found) == (part == "head")


@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_where_clients_have_models_of_their_own_it_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"ft=1; expected 0: {name} tests models of the clients' own, and ft adapts"):
        build(f"{name}:ft=1", options(name))


def test_the_other_methods_name_the_settings_that_they_have() -> None:
    for name in METHODS.keys() - {*COMMON, *OF_THEIR_OWN, "fedbabu"}:  # its ft is a part of the model
        with pytest.raises(ValueError, match=f"ft=1 is not a hyper-parameter of {name}; expected"):
            build(f"{name}:ft=1", {})
    for key, value in (("ft", -1), ("ft_lr", -1.0), ("ft_part", "tail")):
        with pytest.raises(ValueError, match=f"{key}={value}; expected"):
            replace(FedAvg(), **{key: value})

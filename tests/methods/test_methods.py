"""Rules that all methods share: which replies are refused, who is selected, in which order data are seen. FedAvg,
Local.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD
from edgefl.methods import METHODS, build, parse, settings_of
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import minibatches
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.fedspu import FedSPU
from edgefl.methods.local_training import LocalOnly
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.small_models import copied, device, plain, same_bits

TASK = Task(ModelSpec.of(plain()), 6, seed=1)
INITIAL = plain().init(rng.stream(1, rng.INIT))
AVERAGE = FedAvg(per_round=3, epochs=1, batch=100, lr=0.1)


def accepted() -> tuple[Plan, Reply]:
    algorithm = FedSPU(keep=(0.5,), per_round=1)
    plan = algorithm.plan(TASK, algorithm.start(TASK, INITIAL), 4)[0]
    return plan, Reply(4, plan.client, plan.payload, plan.selection.hash(), 5, 1, "on", {"loss": 1.0})


def test_a_fitting_reply_is_accepted() -> None:
    assert refuse(*accepted()) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"round": 3}, r"for round 3; expected round 4"),
        ({"client": 99}, r"reply of client 99; expected client"),
        ({"selection_hash": b"\0" * 8}, r"has selection hash 0000000000000000; expected [0-9a-f]{16}"),
        ({"metrics": {"loss": float("inf")}}, r"has loss=inf; expected a finite value"),
    ],
)
def test_a_stale_foreign_or_diverged_reply_is_refused_by_name(change: dict[str, object], reason: str) -> None:
    plan, reply = accepted()
    found = refuse(plan, replace(reply, **change))
    assert found is not None
    assert re.search(reason, found)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reply_with_one_non_finite_value_is_refused_by_name(value: float) -> None:
    plan, reply = accepted()
    params = {name: array.copy() for name, array in INITIAL.items()}
    params["conv2.weight"][...] = value
    reply = replace(reply, payload={MODEL: take(params, TASK.spec, plan.selection)})
    assert (
        refuse(plan, reply)
        == f"reply of client {plan.client} has a non-finite value in model/conv2.weight; expected finite values"
    )


def test_clients_are_sampled_alike_by_every_method() -> None:
    """Methods that are compared train the same clients in the same rounds (ALGORITHMS 7.1)."""
    methods = [FedSPU(per_round=3), AVERAGE, LocalOnly(per_round=3)]
    for round in range(1, 6):
        chosen = [[p.client for p in m.plan(TASK, m.start(TASK, INITIAL), round)] for m in methods]
        assert chosen[0] == chosen[1] == chosen[2] == sorted(set(chosen[0]))


def test_clients_are_sampled_uniformly() -> None:
    counts = np.zeros(6)
    for round in range(600):
        counts[sample_clients(TASK, range(6), 2, round)] += 1
    assert np.abs(counts - 200).max() < 4 * np.sqrt(600 * (1 / 3) * (2 / 3))


def test_every_epoch_sees_every_training_sample_once_in_its_own_order() -> None:
    client_state = device(plain())
    batches = minibatches(client_state, round=3, epochs=2, batch=5)
    assert [len(batch) for batch in batches] == [5, 5, 2, 5, 5, 2]
    first, second = np.concatenate(batches[:3]), np.concatenate(batches[3:])
    assert sorted(first) == sorted(second) == client_state.train.tolist()
    assert first.tolist() != second.tolist()
    again = minibatches(client_state, round=3, epochs=2, batch=5)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(batches, again, strict=True))
    assert [b.tolist() for b in minibatches(client_state, 4, 2, 5)] != [b.tolist() for b in batches]


def average(state: State, replies: list[Reply], plans: list[Plan]) -> State:
    accumulator = Accumulator(TASK.spec)
    for plan, reply in zip(plans, replies, strict=True):
        AVERAGE.aggregate(accumulator, plan, reply)
    return AVERAGE.finish(TASK, state, accumulator, plans[0].round)


def test_fedavg_of_equal_models_is_that_model() -> None:
    state = AVERAGE.start(TASK, INITIAL)
    plans = AVERAGE.plan(TASK, state, 1)
    replies = [Reply(1, plan.client, plan.payload, examples=3 + plan.client) for plan in plans]
    assert same_bits(average(state, replies, plans).arrays[MODEL], INITIAL)


def test_fedavg_with_one_client_is_central_training() -> None:
    algorithm = replace(AVERAGE, per_round=1, epochs=2, batch=4)
    state = algorithm.start(TASK, INITIAL)
    plan = algorithm.plan(TASK, state, 1)[0]
    accumulator = Accumulator(TASK.spec)
    algorithm.aggregate(accumulator, plan, algorithm.train(device(plain(), plan.client), plan))
    alone = device(plain(), plan.client)
    alone.learner.fit(alone.data, minibatches(alone, 1, 2, 4), SGD(0.1))
    after = algorithm.finish(TASK, state, accumulator, 1).arrays[MODEL]
    assert same_bits(after, copied(alone.learner.read()))


def test_fedavg_with_full_batches_steps_along_the_mean_gradient() -> None:
    """E = 1 and one batch per client: w - lr * sum n_k g_k / sum n_k (ALGORITHMS 7.2)."""
    state = AVERAGE.start(TASK, INITIAL)
    plans = AVERAGE.plan(TASK, state, 1)
    client_states = [device(plain(), plan.client, count=10 * (1 + plan.client)) for plan in plans]
    gradients = [client_state.learner.gradient(client_state.data, client_state.train) for client_state in client_states]
    sizes = np.array([len(client_state.train) for client_state in client_states], float)
    after = average(state, [AVERAGE.train(*pair) for pair in zip(client_states, plans, strict=True)], plans).arrays[
        MODEL
    ]
    for name, param in TASK.spec.params.items():
        if param.kind == "learn":
            mean = sum(n * g[name] for n, g in zip(sizes, gradients, strict=True)) / sizes.sum()
            np.testing.assert_allclose(after[name], INITIAL[name] - 0.1 * mean, rtol=1e-4, atol=1e-6)


def test_local_sends_nothing_and_trains_in_place() -> None:
    algorithm = LocalOnly(per_round=2, epochs=1, batch=5, lr=0.1)
    state = algorithm.start(TASK, INITIAL)
    plans = algorithm.plan(TASK, state, 1)
    client_state = device(plain(), plans[0].client)
    reply = algorithm.train(client_state, plans[0])
    assert all(not plan.payload for plan in plans)
    assert not reply.payload
    assert not same_bits(copied(client_state.learner.read()), INITIAL)


def test_options_reach_the_methods_that_have_them() -> None:
    options = {"lr": 0.5, "keep": (0.5,), "per_round": 2}
    assert build("fedspu-es", options) == FedSPU(lr=0.5, keep=(0.5,), per_round=2, es=True)
    assert build("fedavg", options) == FedAvg(lr=0.5, per_round=2)
    assert all("per_round" in settings_of(name) for name in METHODS)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("es", "true", True),
        ("lam", "0.5", 0.5),
        ("keep", ".5,1", (0.5, 1.0)),
        ("epochs", "3", 3),
        ("delta", "cut", "cut"),
    ],
)
def test_settings_are_read_as_their_type(name: str, text: str, value: object) -> None:
    assert parse(["local", "fedspu"], name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("es", "yes", r"es=yes; expected true or false"),
        ("epochs", "2.5", r"epochs=2.5; expected an integer"),
        ("delta", "half", r"delta=half; expected exact or cut"),
        ("mu", "1", r"mu=1 is not a hyper-parameter of local, fedspu; expected one of batch, betas"),
    ],
)
def test_settings_that_cannot_be_read_are_named(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(["local", "fedspu"], name, text)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match=r"method=fedfoo; expected one of fedspu, fedspu-es, fedspu-cached"):
        build("fedfoo", {})


def test_the_rate_decays_from_round_two_on() -> None:
    method = replace(AVERAGE, lr=0.5, lr_decay=0.5)
    assert [method.rate(round) for round in (1, 2, 3)] == [0.5, 0.25, 0.125]
    assert [method.local_optimizer(round).lr for round in (1, 2, 3)] == [0.5, 0.25, 0.125]

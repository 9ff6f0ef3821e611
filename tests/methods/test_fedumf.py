"""FedUmf by hand on quadratics, and against uniform FedAvg bit for bit on a small network (ALGORITHMS 5, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from edgefl import rng
from edgefl.methods import build
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.fedumf import DELTA, FedUmf
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.task import MODEL, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.quadratics import SPEC as SCALAR
from tests.methods.quadratics import at, clients, play, start, weight
from tests.methods.small_models import copied, device, plain, same_bits

ETA = 0.25
METHOD = FedUmf(per_round=1, epochs=1, batch=8, lr=ETA)  # one full-batch step per round
SPEC = ModelSpec.of(plain())
INITIAL = plain().init(rng.stream(1, rng.INIT))
COMMON = {"per_round": 2, "epochs": 2, "batch": 5, "lr": 0.1, "momentum": 0.5, "weight_decay": 5e-4, "lr_decay": 0.9}
AVERAGE = FedAvg(weight="uniform", **COMMON)  # type: ignore[arg-type]
FUSION = FedUmf(**COMMON)  # type: ignore[arg-type]


def step(w: float, centre: float, eta: float = ETA) -> float:
    """Make one step of gradient descent on |w - centre|^2 / 2."""
    return w - eta * (w - centre)


# On quadratics, by hand.


def test_two_clients_in_turn_follow_the_trace_by_hand() -> None:
    """t_umf_quadratic_trace: centres 4 and -8, M = 1, authorised 0, 1, 1, 0."""
    client_states = clients([4.0, -8.0])
    state = start(METHOD, client_states)
    # Round 1: client 0 sends 0 -> 1. Client 1 trains 0 -> -2 and keeps g = -2.
    state = play(METHOD, client_states, state, 1, authorised=[0])
    assert weight(state) == 1.0
    assert client_states[0].arrays == {}
    assert client_states[1].arrays[DELTA]["fc.bias"] == -2.0
    # Round 2: client 1 starts at 1 + (-2) = -1 and sends -1 - (7 / 4) = -2.75. Client 0 trains 1 -> 1.75, g = 0.75.
    state = play(METHOD, client_states, state, 2, authorised=[1])
    assert weight(state) == -2.75
    assert client_states[0].arrays[DELTA]["fc.bias"] == 0.75
    # Round 3: client 1 is chosen again. Its change of round 2 was sent, so it starts at -2.75.
    state = play(METHOD, client_states, state, 3, authorised=[1])
    assert weight(state) == step(-2.75, -8.0)
    # Round 4: client 0 fuses what it did in round 3, from -2.75, not what it did in round 2.
    before = weight(state)
    kept = step(-2.75, 4.0) + 2.75
    state = play(METHOD, client_states, state, 4, authorised=[0])
    assert weight(state) == step(before + kept, 4.0)


@pytest.mark.parametrize("fusion", [0.1, 0.5, 1.0])
def test_a_newly_authorised_client_ends_where_the_formula_says(fusion: float) -> None:
    """theta^i = theta_t + fusion (eta_t / eta_{t-1}) (-eta_{t-1} grad(start_{t-1})) - eta_t grad(start)."""
    method, centre, later = replace(METHOD, fusion=fusion, lr_decay=0.5), 3.0, ETA * 0.5
    client_states = clients([1.0, centre])
    state = play(method, client_states, start(method, client_states), 1, authorised=[0])
    theta = weight(state)
    begin = theta + fusion * (later / ETA) * (-ETA * (0.0 - centre))
    state = play(method, client_states, state, 2, authorised=[1])
    assert weight(state) == pytest.approx(begin - later * (begin - centre), abs=1e-15)


def test_what_is_fused_is_not_kept_a_second_time() -> None:
    """Fused in round 2 but then away until 4: its g of round 3 counts from the start after the fusion alone."""
    client_states = clients([0.0, 8.0, 0.0])
    method = replace(METHOD, per_round=2)
    state = play(method, client_states, start(method, client_states), 1, authorised=[0, 2])
    play(method, client_states, state, 2, authorised=[0, 1])
    assert client_states[1].arrays == {}
    play(method, client_states, state, 3, authorised=[0, 2])
    assert client_states[1].arrays[DELTA]["fc.bias"] == step(weight(state), 8.0) - weight(state)


@pytest.mark.parametrize("away_for", [1, 2])
def test_a_change_older_than_a_round_is_dropped(away_for: int) -> None:
    """t_umf_staleness_drop: trained in round 1, away afterwards, then authorised: it starts from the model it got."""
    client_states = clients([0.0, 8.0])
    state = play(METHOD, client_states, start(METHOD, client_states), 1, authorised=[0])
    for round in range(2, 2 + away_for):
        state = play(METHOD, client_states, state, round, authorised=[0], away=[1])
    assert client_states[1].private["round"] == 1
    state = play(METHOD, client_states, state, 2 + away_for, authorised=[1])
    assert weight(state) == step(0.0, 8.0)


def test_a_client_that_was_never_there_has_nothing_to_fuse() -> None:
    client_states = clients([0.0, 8.0])
    state = play(METHOD, client_states, start(METHOD, client_states), 1, authorised=[0], away=[1])
    assert weight(play(METHOD, client_states, state, 2, authorised=[1])) == step(0.0, 8.0)


def test_the_change_is_scaled_by_the_ratio_of_the_rates() -> None:
    """t_umf_eta_ratio: with eta halved in round 2, half of g = 2 is added. With a constant eta, all of it is added."""
    for decay, added in ((0.5, 1.0), (1.0, 2.0)):
        method, client_states = replace(METHOD, lr_decay=decay), clients([0.0, 8.0])
        state = play(method, client_states, start(method, client_states), 1, authorised=[0])
        state = play(method, client_states, state, 2, authorised=[1])
        assert weight(state) == step(added, 8.0, ETA * decay)


def test_a_round_without_replies_changes_nothing() -> None:
    client_states = clients([1.0, 8.0])
    state = start(METHOD, client_states, 3.0)
    assert play(METHOD, client_states, state, 1, away=[0, 1]).arrays[MODEL] == at(3.0)


# On a network, against FedAvg.


def run(method: Algorithm, rounds: int, count: int = 4, sizes: Sequence[int] = (20, 20, 20, 20)) -> list[Params]:
    """The global model after every round. sizes: of the clients, in samples."""
    client_states = [device(plain(), client, count=sizes[client]) for client in range(count)]
    state, found = method.start(Task(SPEC, count, 1), INITIAL), []
    for round in range(1, rounds + 1):
        state = play(method, client_states, state, round)
        found.append(copied(state.arrays[MODEL]))
    return found


def equal(found: Sequence[Params], expected: Sequence[Params]) -> list[bool]:
    return [same_bits(a, b) for a, b in zip(found, expected, strict=True)]


@pytest.mark.parametrize("weight", ["samples", "uniform"])
def test_without_fusion_it_is_fedavg_of_the_same_weight_bit_for_bit(weight: Literal["samples", "uniform"]) -> None:
    """t_umf_alpha0 holds with weights by samples as well, of which clients have different numbers."""
    found = run(replace(FUSION, fusion=0.0, weight=weight), 4, sizes=(20, 60, 30, 40))
    assert equal(found, run(replace(AVERAGE, weight=weight), 4, sizes=(20, 60, 30, 40))) == [True] * 4
    other: Literal["samples", "uniform"] = "uniform" if weight == "samples" else "samples"
    assert equal(found, run(replace(AVERAGE, weight=other), 4, sizes=(20, 60, 30, 40)))[-1] is False


@pytest.mark.parametrize("options", [{"alpha": 0.25}, {"alpha": 0.25, "fusion": 0.5}], ids=str)
def test_the_name_that_fusion_had_is_still_read(options: dict[str, float]) -> None:
    assert build("fedumf", options) == FedUmf(fusion=options.get("fusion", 0.25))
    assert build("fedumf:alpha=0.75", options) == FedUmf(fusion=0.75)


@pytest.mark.parametrize("fusion", [0.1, 1.0])
def test_full_participation_is_uniform_fedavg_bit_for_bit(fusion: float) -> None:
    """t_umf_full"""
    everybody, average = replace(FUSION, per_round=4, fusion=fusion), replace(AVERAGE, per_round=4)
    assert equal(run(everybody, 3), run(average, 3)) == [True] * 3


def test_it_is_fedavg_until_somebody_is_newly_authorised() -> None:
    """This is always so in round 1, and here in round 2, too, which has the clients of round 1."""
    task = Task(SPEC, 4, 1)
    chosen = [[p.client for p in AVERAGE.plan(task, AVERAGE.start(task, INITIAL), round)] for round in (1, 2, 3)]
    assert [mine == chosen[0] for mine in chosen] == [True, True, False]
    assert equal(run(FUSION, 3), run(AVERAGE, 3)) == [True, True, False]


def test_running_statistics_are_not_fused() -> None:
    client_state = device(plain())
    plans = [Plan("train", t, 0, payload={MODEL: take(INITIAL, SPEC, None)}, authorised=t == 2) for t in (1, 2)]
    FUSION.train(client_state, plans[0])
    assert client_state.arrays[DELTA].keys() == {name for name, param in SPEC.params.items() if param.kind == "learn"}
    assert client_state.private == {"round": 1, "lr": 0.1}


def test_every_registered_client_is_planned_and_fedavg_s_are_authorised() -> None:
    task = Task(SPEC, 6, 1)
    for round in range(1, 6):
        plans = FUSION.plan(task, FUSION.start(task, INITIAL), round)
        chosen = [plan.client for plan in AVERAGE.plan(task, AVERAGE.start(task, INITIAL), round)]
        assert [plan.client for plan in plans] == list(range(6))
        assert [plan.client for plan in plans if plan.authorised] == chosen


def test_a_client_that_is_not_authorised_may_not_send() -> None:
    plan = Plan("train", 1, 0, payload={MODEL: take(INITIAL, SPEC, None)}, authorised=False)
    reply = Reply(1, 0, plan.payload, examples=3, steps=1)
    assert refuse(plan, reply) == "reply of client 0 has payloads ['model']; expected []"
    assert refuse(plan, replace(reply, payload={})) is None
    assert refuse(replace(plan, authorised=True), replace(reply, payload={})) is not None


def test_replies_weigh_the_same_or_by_samples() -> None:
    for weight_by, expected in (("uniform", 2.0), ("samples", 3.0)):
        method, accumulator = replace(METHOD, weight=weight_by), Accumulator(SCALAR)  # type: ignore[arg-type]
        for client, (value, examples) in enumerate([(0.0, 1), (4.0, 3)]):
            payload = {MODEL: take(at(value), SCALAR)}
            method.aggregate(
                accumulator, Plan("train", 1, client, payload=payload), Reply(1, client, payload, examples=examples)
            )
        after = accumulator.mean.over(at(0.0))
        assert {float(a.reshape(-1)[0]) for a in after.values()} == {expected}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fusion": 1.5}, r"fusion=1.5; expected 0 <= fusion <= 1"),
        ({"lr_decay": 0.0}, r"lr_decay=0.0; expected 0 < lr_decay <= 1"),
        ({"momentum": 1.0}, r"momentum=1.0; expected 0 <= momentum < 1"),
        ({"weight": "batches"}, r"weight=batches; expected samples or uniform"),
    ],
)
def test_hyper_parameters_out_of_range_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build("fedumf", change)

"""FedDyn, FedDC and FedUmf + FedDC by hand on quadratics, and their invariants (ALGORITHMS 5.1, 7.5, 7.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgefl import rng
from edgefl.methods import build
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.feddc import DRIFT, GRADIENT, FedDC
from edgefl.methods.feddyn import FedDyn
from edgefl.methods.fedumf import DELTA
from edgefl.methods.fedumf_feddc import FedUmfDC
from edgefl.methods.task import MODEL, Task
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from tests.methods.quadratics import at, clients, play, start, weight
from tests.methods.small_models import copied, device, plain, same_bits

ONE_STEP = {"epochs": 1, "batch": 8, "lr": 0.25}  # one full-batch step per round
CENTRES = [4.0, -8.0, 1.0, 6.0]
DYN = FedDyn(per_round=2, alpha=0.5, **ONE_STEP)  # type: ignore[arg-type]
DC = FedDC(per_round=2, alpha=0.5, **ONE_STEP)  # type: ignore[arg-type]
SPEC = ModelSpec.of(plain())
INITIAL = plain().init(rng.stream(1, rng.INIT))


def scalar(client_state: ClientState, group: str) -> float:
    return float(client_state.arrays[group]["fc.bias"][0]) if group in client_state.arrays else 0.0


def test_feddyn_by_hand() -> None:
    client_states = clients([4.0, -8.0])
    method = replace(DYN, alpha=1.0)
    state = play(method, client_states, start(method, client_states), 1)  # x = 1, -2
    assert [scalar(client_state, GRADIENT) for client_state in client_states] == [-1.0, 2.0]
    assert weight(state, GRADIENT) == 0.5
    assert weight(state) == -0.5 - 0.5


def test_feddyn_h_is_the_mean_of_all_clients_gradients() -> None:
    """t_feddyn_h_mean, with half of the clients in each round."""
    client_states = clients(CENTRES)
    state = start(DYN, client_states)
    for round in range(1, 12):
        state = play(DYN, client_states, state, round)
        mean = np.mean([scalar(client_state, GRADIENT) for client_state in client_states])
        assert weight(state, GRADIENT) == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("method", [DYN, DC], ids=["feddyn", "feddc"])
def test_full_participation_finds_the_optimum_of_the_sum(method: FedDyn | FedDC) -> None:
    """Clients of different centres pull apart, and the corrections bring the model to the mean of the centres."""
    method, client_states = replace(method, per_round=4, epochs=4), clients(CENTRES)
    state = start(method, client_states)
    for round in range(1, 200):
        state = play(method, client_states, state, round)
    assert weight(state) == pytest.approx(np.mean(CENTRES), abs=1e-6)


def test_feddyn_stays_at_a_stationary_point() -> None:
    """At the optimum with g_i = grad F_i nothing moves."""
    client_states, optimum = clients([4.0, -8.0]), -2.0
    for client_state, centre in zip(client_states, (4.0, -8.0), strict=True):
        client_state.arrays = {GRADIENT: at(optimum - centre)}
    state = play(DYN, client_states, start(DYN, client_states, optimum), 1)
    assert weight(state) == optimum
    assert weight(state, GRADIENT) == 0.0


def test_feddyn_with_a_stiff_pull_does_not_move() -> None:
    """alpha -> infinity with bounded gradients, at steps that the pull allows (lr * alpha <= 1)."""
    stiff = replace(DYN, alpha=1e6, lr=1e-6, epochs=20)
    client_states = clients(CENTRES)
    state = start(stiff, client_states)
    for round in range(1, 4):
        state = play(stiff, client_states, state, round)
    assert abs(weight(state)) < 1e-4


def test_feddc_begins_as_fedprox() -> None:
    """With h = s = 0 a client takes steps along its gradient + alpha (x - w), and without alpha plain steps."""
    for alpha in (0.0, 0.5):
        client_states, method = clients([4.0, -8.0]), replace(DC, alpha=alpha, epochs=2)
        state = play(method, client_states, start(method, client_states), 1)
        x = [0.25 * centre for centre in (4.0, -8.0)]
        x = [at - 0.25 * ((at - centre) + alpha * at) for at, centre in zip(x, (4.0, -8.0), strict=True)]
        assert [scalar(client_state, DRIFT) for client_state in client_states] == x
        assert weight(state) == np.mean(x) + np.mean(x)  # of the models, and of the drifts


def test_feddc_by_hand() -> None:
    client_states = clients([4.0, -8.0])
    state = play(DC, client_states, start(DC, client_states), 1)  # x = 1, -2 = d
    assert [scalar(client_state, DRIFT) for client_state in client_states] == [1.0, -2.0]
    assert [scalar(client_state, GRADIENT) for client_state in client_states] == [-4.0, 8.0]
    assert (weight(state, GRADIENT), weight(state, DRIFT), weight(state)) == (2.0, -0.5, -0.5 - 0.5)
    # Round 2 from w = -1: gradients -5 + 0.5 * 1 + (2 + 4) = 1.5 and 7 + 0.5 * -2 + (2 - 8) = 0. x is -1.375, -1.
    state = play(DC, client_states, state, 2)
    assert [scalar(client_state, DRIFT) for client_state in client_states] == [0.625, -2.0]
    assert weight(state) == (-1.375 - 1) / 2 + (0.625 - 2) / 2


def test_feddc_estimates_gradients_with_the_rate_of_round_one() -> None:
    """Where the rate decays, a move of round 2 is made with half the rate, and still divided by the whole rate."""
    client_states, method = clients([4.0, -8.0]), replace(DC, lr_decay=0.5)
    state = play(method, client_states, start(method, client_states), 1)
    before, shared, w = scalar(client_states[0], GRADIENT), weight(state, GRADIENT), weight(state)
    play(method, client_states, state, 2)
    # From w = -1 as in the round by hand, gradient 1.5: x = -1 - 0.125 * 1.5.
    moved = float(client_states[0].learner.read()["fc.bias"][0]) - w
    assert moved == -0.1875
    assert scalar(client_states[0], GRADIENT) == before - shared - moved / 0.25


def test_feddc_with_the_drifts_of_participants_averages_what_they_add() -> None:
    client_states, method = clients([4.0, -8.0]), replace(DC, drifts="participants")
    state = play(method, client_states, start(method, client_states), 1)
    assert weight(state) == ((1 + 1) + (-2 - 2)) / 2


@pytest.mark.parametrize("method", [DC, FedUmfDC(per_round=2, alpha=0.5, **ONE_STEP)], ids=["feddc", "fedumf-feddc"])  # type: ignore[arg-type]
def test_a_drift_is_the_sum_of_a_clients_moves(method: FedDC) -> None:
    """t_feddc_drift_sum. Also, s_g is the mean of all s_i, and the server's drift is the mean of all h_i."""
    client_states, moves = clients(CENTRES), np.zeros(4)
    task = Task(client_states[0].spec, 4, 1)
    state = start(method, client_states)
    for round in range(1, 12):
        w = weight(state)
        authorised = [plan.client for plan in method.plan(task, state, round) if plan.authorised]
        state = play(method, client_states, state, round)
        for client in authorised:
            moves[client] += float(client_states[client].learner.read()["fc.bias"][0]) - w
        assert [scalar(client_state, DRIFT) for client_state in client_states] == moves.tolist()
        for group in (GRADIENT, DRIFT):
            mean = np.mean([scalar(client_state, group) for client_state in client_states])
            assert weight(state, group) == pytest.approx(mean, abs=1e-12)


def test_the_combination_by_hand() -> None:
    """Client 1 trains in round 1 unasked, 0 -> -2, and starts from w + (-2) in round 2. Its d is the whole move."""
    method = FedUmfDC(per_round=1, alpha=0.5, **ONE_STEP)  # type: ignore[arg-type]
    client_states = clients([4.0, -8.0])
    state = play(method, client_states, start(method, client_states), 1, authorised=[0])
    assert client_states[1].arrays.keys() == {DELTA}
    w, shared = weight(state), weight(state, GRADIENT)
    assert (w, shared) == (1.0 + 0.5, -2.0)
    state = play(method, client_states, state, 2, authorised=[1])
    begin = w - 2.0
    x = begin - 0.25 * ((begin + 8.0) + 0.5 * (begin - w) + shared)
    assert scalar(client_states[1], DRIFT) == x - w
    assert scalar(client_states[1], GRADIENT) == -shared - (x - w) / 0.25
    assert client_states[0].arrays[DRIFT]["fc.bias"] == 1.0


@pytest.mark.parametrize("method", [DYN, DC], ids=["feddyn", "feddc"])
def test_a_round_without_replies_changes_nothing(method: FedDyn | FedDC) -> None:
    client_states = clients([1.0, 8.0])
    state = start(method, client_states, 3.0)
    assert play(method, client_states, state, 1, away=[0, 1]) is state


def run(method: Algorithm, rounds: int) -> list[Params]:
    """The global model after every round, on a small network with running statistics."""
    client_states = [device(plain(), client) for client in range(4)]
    state, found = method.start(Task(SPEC, 4, 1), INITIAL), []
    for round in range(1, rounds + 1):
        state = play(method, client_states, state, round)
        found.append(copied(state.arrays[MODEL]))
    return found


def equal(found: Sequence[Params], expected: Sequence[Params]) -> list[bool]:
    return [same_bits(a, b) for a, b in zip(found, expected, strict=True)]


TRAINING = {"per_round": 2, "epochs": 1, "batch": 5, "lr": 0.1, "lr_decay": 0.9, "momentum": 0.5}


def test_the_combination_without_fusion_is_feddc_bit_for_bit() -> None:
    """t_umf_feddc_alpha0"""
    expected = run(FedDC(**TRAINING), 4)  # type: ignore[arg-type]
    assert equal(run(FedUmfDC(fusion=0.0, **TRAINING), 4), expected) == [True] * 4  # type: ignore[arg-type]
    assert equal(run(FedUmfDC(**TRAINING), 4), expected) == [True, True, False, False]  # type: ignore[arg-type]


def test_the_combination_with_everyone_authorised_is_feddc_bit_for_bit() -> None:
    everyone = {**TRAINING, "per_round": 4}
    assert equal(run(FedUmfDC(**everyone), 3), run(FedDC(**everyone), 3)) == [True] * 3  # type: ignore[arg-type]


def test_running_statistics_are_averaged_alone() -> None:
    """After round 1 they equal uniform FedAvg's for every method whose first local objective is FedAvg's."""
    average = run(FedAvg(weight="uniform", **TRAINING), 1)[0]  # type: ignore[arg-type]
    found = run(FedDC(alpha=0.0, **TRAINING), 1)[0]  # type: ignore[arg-type]
    stats = [name for name, param in SPEC.params.items() if param.kind == "stat"]
    assert stats
    assert all(np.array_equal(found[name], average[name]) for name in stats)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("feddyn", {"alpha": 0.0}, r"alpha=0.0; expected a finite alpha > 0"),
        ("feddc", {"alpha": -1.0}, r"alpha=-1.0; expected a finite alpha >= 0"),
        ("feddc", {"drifts": "some"}, r"drifts=some; expected all or participants"),
        ("fedumf-feddc", {"fusion": 2.0}, r"fusion=2.0; expected 0 <= fusion <= 1"),
    ],
)
def test_hyper_parameters_out_of_range_are_named(name: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, change)

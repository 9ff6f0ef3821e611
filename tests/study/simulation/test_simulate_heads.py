"""PFLEGO, FedPer and FedRecon in the round loop: bytes, order, restart with the optimiser's state, and evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.data.catalog import load
from edgefl.experiment.federation import Federation
from edgefl.experiment.presets import preset
from edgefl.experiment.settings import Experiment, Settings
from edgefl.methods import PFLEGO, FedAvg, FedPer, FedRecon
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.personal_head import CLASSES, HEAD
from edgefl.methods.server_optimizer import FIRST, SECOND, STEPS
from edgefl.methods.task import BODY
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.study.simulation.test_simulate import content, run
from tests.study.simulation.test_simulate_fusion import LostError, backwards, bits

CLIENTS, CHOSEN = 6, 2
SETTINGS = Settings(rounds=4, eval_every=2, checkpoint_every=2)
METHODS: dict[str, Algorithm] = {
    "pflego": PFLEGO(per_round=CHOSEN, tau=4, beta=0.05),
    "pflego-tables": PFLEGO(per_round=CHOSEN, tau=4, server="adam", head_step="eq3", eval_point="post_local"),
    "fedper": FedPer(per_round=CHOSEN, epochs=2, eval_point="post_local"),
    "fedrecon": FedRecon(per_round=CHOSEN, tau=4, eval_point="post_local"),
}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(Experiment(clients=CLIENTS, partition="classes:3", per_round=CHOSEN, model="pflego_mlp"))


@pytest.fixture(scope="module")
def finished(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The files, state and metrics of every method's uninterrupted run."""
    found = {}
    for name, method in METHODS.items():
        path = tmp_path_factory.mktemp(name)
        state, log_records = run(path, method, federation, SETTINGS)
        found[name] = content(path), state, log_records
    return found


@pytest.mark.parametrize("name", METHODS)
def test_order_of_arrival_does_not_change_the_result(
    name: str, federation: Federation, finished: dict[str, Any], tmp_path: Path
) -> None:
    """t_arrival_order_invariance"""
    state, _ = run(tmp_path, backwards(METHODS[name]), federation, SETTINGS)
    assert bits(state) == bits(finished[name][1])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("round", [1, 3])
def test_a_run_that_is_lost_after_a_round_resumes_bit_for_bit(
    name: str, round: int, federation: Federation, finished: dict[str, Any], tmp_path: Path
) -> None:
    """t_restart_bitwise: the optimiser's moments and count come back with the parameters, heads with their clients."""

    def lose(log_record: dict[str, Any]) -> None:
        if log_record["round"] == round:
            raise LostError

    journal = Journal(tmp_path)
    with pytest.raises(LostError):
        simulate(METHODS[name], federation, SETTINGS, journal, lose)
    journal.close()
    run(tmp_path, METHODS[name], federation, SETTINGS)
    assert content(tmp_path) == finished[name][0]


def test_adam_s_state_is_in_the_store(federation: Federation, finished: dict[str, Any]) -> None:
    state = finished["pflego-tables"][1]
    assert state.values == {STEPS: 4}
    body = ModelSpec.of(federation.graph).body
    for moment in (FIRST, SECOND):
        assert state.arrays[moment].keys() == set(body)
        assert all(value.dtype == np.float64 for value in state.arrays[moment].values())


@pytest.mark.parametrize("name", METHODS)
def test_value_bytes_are_those_of_the_body_each_way(
    name: str, federation: Federation, finished: dict[str, Any]
) -> None:
    """t_pflego_bytes, t_bytes_counters_equal_formula: 4 P_theta for each of r clients (ALGORITHMS 10.1)."""
    spec = ModelSpec.of(federation.graph)
    expected = 4 * CHOSEN * sum(int(np.prod(spec.params[part].shape)) for part in spec.body)
    for log_record in finished[name][2]:
        assert log_record["down"]["values"] == log_record["up"]["values"] == expected


def test_clients_keep_their_heads_and_label_maps_alone(federation: Federation, tmp_path: Path) -> None:
    run(tmp_path, METHODS["pflego"], federation, SETTINGS)
    journal = Journal(tmp_path)
    for client in (each for each in range(CLIENTS) if journal.tag(each) is not None):
        kept = journal.load_client_state(client)
        assert kept is not None
        assert not kept.params
        assert kept.private.keys() == {CLASSES}
        assert kept.arrays.keys() == {HEAD}
        assert len(kept.arrays[HEAD]["fc.bias"]) == len(kept.private[CLASSES])
    journal.close()


@pytest.mark.parametrize("name", METHODS)
def test_personal_models_are_evaluated_and_no_global_one(name: str, finished: dict[str, Any]) -> None:
    """(a) and (b) of ALGORITHMS 0 for every client, selected or not: the body of now under the head of each."""
    for log_record in finished[name][2]:
        if "evaluation" in log_record:
            assert log_record["evaluation"].keys() == {"personal"}
            assert len(log_record["evaluation"]["personal"]["correct"]) == CLIENTS


def test_after_training_the_clients_of_the_round_are_tested(federation: Federation, finished: dict[str, Any]) -> None:
    """eval_point: they are tested only then, under FedAvg, too."""
    for name, method in METHODS.items():
        asked = vars(method)["eval_point"] == "post_local"
        for record in finished[name][2][0]["clients"]:
            assert ("tested" in record) == asked
            if asked:
                assert record["tested"] == len(federation.clients[record["client"]].test)
                assert 0 <= record["correct"] <= record["tested"]


def test_fedavg_is_tested_after_training_where_that_is_asked(federation: Federation, tmp_path: Path) -> None:
    found = {}
    for point in ("none", "post_local"):
        method = FedAvg(per_round=CHOSEN, epochs=1, eval_point=point)  # type: ignore[arg-type]
        found[point] = run(tmp_path / point, method, federation, SETTINGS)
    assert bits(found["none"][0]) == bits(found["post_local"][0])
    assert all("tested" in record for record in found["post_local"][1][0]["clients"])


def test_personalised_heads_learn(federation: Federation, tmp_path: Path) -> None:
    """Three classes of ten each: a guess is right once in three times."""
    method = PFLEGO(per_round=CLIENTS, tau=20, beta=0.1, rho=0.01, server="adam")
    state, log_records = run(tmp_path, method, federation, Settings(rounds=20, eval_every=20, checkpoint_every=20))
    assert BODY in state.arrays
    assert log_records[-1]["evaluation"]["personal"]["accuracy"] > 0.8


def test_a_published_test_part_is_partitioned_like_the_training_part(tmp_path: Path) -> None:
    """ALGORITHMS 11.6: the same classes, every example once, and clients train on all of their share."""
    digits = load("digits")
    x, y = digits.x, digits.y
    np.savez(tmp_path / "dealt.npz", x_train=x[:1500], y_train=y[:1500], x_test=x[1500:], y_test=y[1500:])
    settings: dict[str, Any] = {"data": "dealt.npz", "clients": 7, "partition": "classes:2", "model": "pflego_mlp"}
    made = assemble(Experiment(**settings, partition_test=True, validation_share=0.0), tmp_path)
    train, test = (np.concatenate([vars(c)[part] for c in made.clients]) for part in ("train", "test"))
    assert sorted(train) == list(range(1500))
    assert sorted(test) == list(range(1500, len(y)))
    for client in made.clients:
        assert set(made.data.y[client.test]) <= set(made.data.y[client.train])
    assert made.common is not None
    assert len(made.common) == len(y) - 1500


def test_a_test_part_that_cannot_be_partitioned_is_refused() -> None:
    message = (
        r"partition_test with partition=classes:2 and 0 published test examples; expected classes:K and a published"
    )
    with pytest.raises(ValueError, match=message):
        assemble(Experiment(partition="classes:2", partition_test=True))


def test_presets_are_table_1_s_settings() -> None:
    for degree, held, beta, rho in (("high", 2, 0.006, 0.002), ("medium", 5, 0.006, 0.002), ("no", 10, 0.007, 0.003)):
        experiment = Experiment(
            data="fashion-mnist", methods=("pflego", "fedper"), **preset(f"pflego-{degree}", "fashion-mnist")
        )
        assert (experiment.partition, experiment.clients, experiment.rounds) == (f"classes:{held}", 100, 200)
        methods = experiment.algorithms()
        common: dict[str, Any] = {"per_round": 20, "head_init": "uniform", "eval_point": "post_local"}
        expected = PFLEGO(tau=50, beta=beta, rho=rho, head_step="eq3", server="adam", rounds=200, **common)
        assert methods["pflego"] == expected
        assert methods["fedper"] == FedPer(epochs=50, batch=10**6, lr=0.007, rounds=200, **common)
    with pytest.raises(ValueError, match="preset=pflego-high with data=digits; expected data among mnist"):
        preset("pflego-high", "digits")


def test_pflego_executes_its_trunk_twice_forward_and_once_backward(
    federation: Federation, finished: dict[str, Any]
) -> None:
    """ALGORITHMS 10.1: a client's work grows with tau by two products of the head. Evaluation is not a part of it."""
    *body, head = federation.graph.macs().values()
    for log_record in finished["pflego"][2]:
        for record in log_record["clients"]:
            split = federation.clients[record["client"]]
            classes = len(np.unique(federation.data.y[np.concatenate([split.train, split.validation, split.test])]))
            own = head // federation.graph.output_shape[0] * classes
            steps = 2 * sum(body) + (2 * sum(body) - body[0]) + (4 - 1) * 2 * own + 3 * own
            assert record["executed_flops"] == 2 * len(split.train) * steps, record
        assert log_record["flops"] == {
            "executed": sum(each["executed_flops"] for each in log_record["clients"]),
            "search": 0,
        }

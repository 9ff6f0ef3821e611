"""FedUmf, FedDyn, FedDC and their combination in the round loop: bytes, order, restart, and FedAvg's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.methods import FedAvg, FedDC, FedDyn, FedUmf, FedUmfDC
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan
from edgefl.methods.task import MODEL, State
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.study.simulation.test_simulate import content, run

CLIENTS, CHOSEN = 5, 2
SETTINGS = Settings(rounds=4, eval_every=2, checkpoint_every=2)
OPTIONS: dict[str, Any] = {"per_round": CHOSEN, "epochs": 1, "lr_decay": 0.5, "momentum": 0.5}
METHODS: dict[str, Algorithm] = {
    "fedumf": FedUmf(**OPTIONS),
    "feddyn": FedDyn(**OPTIONS),
    "feddc": FedDC(**OPTIONS),
    "feddc-participants": FedDC(drifts="participants", **OPTIONS),
    "fedumf-feddc": FedUmfDC(**OPTIONS),
}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(Experiment(clients=CLIENTS, partition="shards:2", per_round=CHOSEN))


@pytest.fixture(scope="module")
def finished(federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The files, state and metrics of every method's uninterrupted run."""
    found = {}
    for name, method in METHODS.items():
        path = tmp_path_factory.mktemp(name)
        state, log_records = run(path, method, federation, SETTINGS)
        found[name] = content(path), state, log_records
    return found


def bits(state: State) -> dict[str, bytes]:
    return {f"{group}/{n}": a.tobytes() for group, params in state.arrays.items() for n, a in params.items()}


def backwards(method: Algorithm) -> Algorithm:
    """The method with its plans, and therefore its replies, in descending client order."""
    kind = type(method)

    def plan(self: Algorithm, *rest: Any) -> list[Plan]:
        return kind.plan(self, *rest)[::-1]

    return type("Backwards", (kind,), {"plan": plan})(**vars(method))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", METHODS)
def test_order_of_arrival_does_not_change_the_result(
    name: str, federation: Federation, finished: dict[str, Any], tmp_path: Path
) -> None:
    """t_arrival_order_invariance"""
    state, _ = run(tmp_path, backwards(METHODS[name]), federation, SETTINGS)
    assert bits(state) == bits(finished[name][1])


class LostError(Exception):
    """The process, as far as the round loop can tell."""


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("round", [1, 3])
def test_a_run_that_is_lost_after_a_round_resumes_bit_for_bit(
    name: str, round: int, federation: Federation, finished: dict[str, Any], tmp_path: Path
) -> None:
    """t_restart_bitwise: rounds 1 and 3 are not committed, and what clients wrote in them is repeated."""

    def lose(log_record: dict[str, Any]) -> None:
        if log_record["round"] == round:
            raise LostError

    journal = Journal(tmp_path)
    with pytest.raises(LostError):
        simulate(METHODS[name], federation, SETTINGS, journal, lose)
    journal.close()
    run(tmp_path, METHODS[name], federation, SETTINGS)
    assert content(tmp_path) == finished[name][0]


@pytest.mark.parametrize(
    ("name", "receivers", "vectors"),
    [
        ("fedumf", CLIENTS, 1),
        ("feddyn", CHOSEN, 1),
        ("feddc", CHOSEN, 2),
        ("feddc-participants", CHOSEN, 2),
        ("fedumf-feddc", CLIENTS, 2),
    ],
)
def test_value_bytes_equal_the_formula(
    name: str, receivers: int, vectors: int, federation: Federation, finished: dict[str, Any]
) -> None:
    """t_bytes_counters_equal_formula (ALGORITHMS 7.5, 7.6, 10.4): up are FedAvg's M messages, down n with fusion."""
    spec = ModelSpec.of(federation.graph)
    learn, stat = (NeuronSet.full(spec).count(spec, (kind,)) for kind in ("learn", "stat"))  # type: ignore[arg-type]
    message = 4 * (vectors * learn + stat)
    for log_record in finished[name][2]:
        assert log_record["down"]["values"] == receivers * message
        assert log_record["up"]["values"] == CHOSEN * message
        assert all(record["steps"] > 0 for record in log_record["clients"])
        assert len(log_record["clients"]) == receivers


def test_without_fusion_the_round_loop_gives_uniform_fedavg(federation: Federation, tmp_path: Path) -> None:
    """t_umf_alpha0 and t_umf_full, through messages and files."""
    for name, changes in {"fusion 0": {"fusion": 0.0}, "all": {"per_round": CLIENTS}}.items():
        average = FedAvg(weight="uniform", **{**OPTIONS, "per_round": changes.get("per_round", CHOSEN)})
        ours, _ = run(tmp_path / name, FedUmf(**{**OPTIONS, **changes}), federation, SETTINGS)
        theirs, _ = run(tmp_path / f"{name} average", average, federation, SETTINGS)
        assert bits(ours) == bits(theirs)


def test_a_client_keeps_one_vector_and_only_if_it_may_not_send(federation: Federation, tmp_path: Path) -> None:
    _, log_records = run(tmp_path, METHODS["fedumf"], federation, SETTINGS)
    journal = Journal(tmp_path)
    sent = {record["client"]: record["up"] > 0 for record in log_records[-1]["clients"]}
    for client in range(CLIENTS):
        kept = journal.load_client_state(client)
        assert kept is not None
        assert not kept.params
        assert bool(kept.arrays) == (not sent[client])
        assert kept.private == ({} if sent[client] else {"round": 4, "lr": 0.05 * 0.5**3})
    journal.close()
    assert MODEL not in kept.arrays

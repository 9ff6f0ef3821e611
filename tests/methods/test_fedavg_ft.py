"""fedavg-ft has FedAvg's rounds, and tests every client after it has adapted the global model, which is not kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.experiment.data.split import Split
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Settings
from edgefl.learning import SGD, Evaluation
from edgefl.methods import FedAvg, FedAvgFT
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState, minibatches
from edgefl.methods.task import MODEL, State
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.methods.small_models import copied, device, plain, same_bits

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 1, "batch": 5, "lr": 0.1}
METHOD = FedAvgFT(**OPTIONS, ft_epochs=2)
CLIENTS = 3


def clients() -> list[ClientState]:
    return [device(plain(), client) for client in range(CLIENTS)]


def federation() -> Federation:
    """All clients have parts of one client's samples."""
    parts = np.split(np.arange(30, dtype=np.int32), CLIENTS)
    splits = tuple(Split(part[:6], part[6:7], part[7:]) for part in parts)
    return Federation(plain(), device(plain(), count=30).data, splits, seed=1)


def run(path: Path, method: Algorithm) -> tuple[State, list[dict[str, Any]], list[Any]]:
    """The final state, the lines of metrics, and what the clients keep."""
    journal = Journal(path)
    state = simulate(method, federation(), Settings(rounds=3, eval_every=1), journal)
    log_records = list(journal.metrics())
    kept = [journal.load_client_state(client) for client in range(CLIENTS)]
    journal.close()
    return state, log_records, kept


def test_rounds_and_bytes_are_fedavg_s_and_nothing_is_kept(tmp_path: Path) -> None:
    state, log_records, kept = run(tmp_path / "ft", METHOD)
    expected, others, _ = run(tmp_path / "fedavg", FedAvg(**OPTIONS))
    assert same_bits(state.arrays[MODEL], expected.arrays[MODEL])
    for log_record, other in zip(log_records, others, strict=True):
        assert (log_record["down"], log_record["up"]) == (other["down"], other["up"])
        assert log_record["evaluation"]["global_local"] == other["evaluation"]["global_local"]
        assert log_record["evaluation"].keys() == {"adapted", "global_local"}
    assert kept == [None] * CLIENTS


def adapted(client_state: ClientState, model: dict[str, np.ndarray], epochs: int, lr: float) -> Evaluation:
    client_state.learner.write(model)
    client_state.learner.fit(client_state.data, minibatches(client_state, 0, epochs, METHOD.batch), SGD(lr))
    return client_state.learner.evaluate(client_state.data, client_state.test)


def test_a_client_is_tested_after_its_epochs_from_the_global_model() -> None:
    model = plain().init(rng.stream(5, rng.INIT))
    for mine, again in zip(clients(), clients(), strict=True):
        found = METHOD.evaluate(mine, model)
        assert found == adapted(again, model, 2, METHOD.lr)
        assert found != again.learner.evaluate(again.data, again.train)
        assert METHOD.evaluate(mine, model) == found  # whatever it was asked before
        assert mine.private == {} and mine.arrays == {}


def test_adapting_may_have_a_rate_of_its_own() -> None:
    model = plain().init(rng.stream(5, rng.INIT))
    (client_state, again, *_) = clients()
    again = replace(again, client=0, data=client_state.data)
    slow = replace(METHOD, ft_lr=0.001)
    assert slow.evaluate(client_state, model) == adapted(again, model, 2, 0.001)
    assert slow.evaluate(client_state, model) != METHOD.evaluate(client_state, model)


def test_the_global_model_is_left_alone() -> None:
    model = plain().init(rng.stream(5, rng.INIT))
    before = copied(model)
    METHOD.evaluate(clients()[0], model)
    assert same_bits(model, before)


@pytest.mark.parametrize(("name", "value"), [("ft_epochs", 0), ("ft_lr", -1.0), ("ft_lr", float("inf"))])
def test_values_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}={value}; expected"):
        replace(METHOD, **{name: value})  # type: ignore[arg-type]

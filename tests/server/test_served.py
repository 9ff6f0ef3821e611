"""A served run ends as simulate does, bit for bit: whatever is lost, repeated or restarted on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgefl.methods import (
    APFL,
    Ditto,
    FedAvg,
    FedAvgFT,
    FedDC,
    FedDyn,
    FedMP,
    FedPer,
    FedRecon,
    FedRep,
    FedSelect,
    FedSpa,
    FedSPUCached,
    FedUmf,
    FedUmfDC,
    FjORD,
    Hermes,
    LGFedAvg,
    LocalOnly,
    PruneFL,
    RandomDropout,
    Scaffold,
    SubFedAvg,
    Subsampling,
)
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.round_closing import AggregationSettings
from edgefl.methods.task import State
from edgefl.server import run_history
from edgefl.server.round_rules import Rules
from edgefl.study.simulation.journal import Journal
from tests.server.served import CLIENTS, METHOD, RULES, World, simulated

OPTIONS = {"per_round": 3, "epochs": 1, "batch": 4, "lr": 0.1}
PRUNING = {**OPTIONS, "epochs": 2, "prune_rate": 0.3, "distance": 0.0, "accuracy": 0.0, "accept_on": "test"}
METHODS = {
    "fedspu": METHOD,
    "fedspu-es": replace(METHOD, es=True, lr=0.5),
    "fedspu-cached": FedSPUCached(**OPTIONS, keep=(0.5, 1.0), budget=(0.3, 1.0), es=True),
    "fedavg:es=1": FedAvg(**{**OPTIONS, "lr": 0.5}, es=True),
    "fedper:es=1": FedPer(**{**OPTIONS, "lr": 0.5}, es=True, es_patience=2),
    "fedrecon:es=1": FedRecon(per_round=3, tau=3, beta=0.5, rho=0.5, es=True, es_ties="stop"),
    "random-dropout:es=1": RandomDropout(**{**OPTIONS, "lr": 0.5}, keep=(0.5, 1.0), es=True),
    "fedumf:es=1": FedUmf(**{**OPTIONS, "per_round": 1}, es=True, es_ties="stop"),
    "feddc:es=1": FedDC(**{**OPTIONS, "lr": 0.5}, es=True),
    "subfedavg:es=1": SubFedAvg(**{**PRUNING, "lr": 0.7}, es=True),
    "prunefl:es=1": PruneFL(**{**OPTIONS, "lr": 0.5}, density=0.3, initial_rounds=1, every=2, es=True),
    "current_global": replace(METHOD, first_state="current_global", weight="batches"),
    "fedavg": FedAvg(**OPTIONS),
    "fedavg-ft": FedAvgFT(**OPTIONS, ft_epochs=2),
    "local": LocalOnly(**OPTIONS),
    "fedumf": FedUmf(**{**OPTIONS, "per_round": 1}, lr_decay=0.5, momentum=0.5),
    "feddyn": FedDyn(**OPTIONS),
    "feddc": FedDC(**OPTIONS),
    "scaffold": Scaffold(**OPTIONS, lr_decay=0.9),
    "fedumf-feddc": FedUmfDC(**OPTIONS),
    "fedrep": FedRep(**OPTIONS, head_epochs=1),
    "lg-fedavg": LGFedAvg(**OPTIONS),
    "apfl": APFL(**OPTIONS, adaptive=True),
    "ditto": Ditto(**OPTIONS, personal_epochs=1),
    "fedselect": FedSelect(**OPTIONS, growth=0.3),
    "subsampling": Subsampling(**OPTIONS, share=0.3),
    "subfedavg": SubFedAvg(**PRUNING),
    "prunefl": PruneFL(**OPTIONS, density=0.3, initial_rounds=1, every=2),
    "random-dropout": RandomDropout(**OPTIONS, keep=(0.5, 1.0)),
    "random-dropout:ft=2": RandomDropout(**OPTIONS, keep=(0.5, 1.0), ft=2, ft_part="head"),
    "fedmp": FedMP(**OPTIONS, keep=(0.5, 1.0)),
    "hermes": Hermes(**OPTIONS, keep=(0.25, 0.5), accuracy=0.0, accept_on="test"),
    "fjord": FjORD(**OPTIONS, keep=(0.25, 0.5, 1.0)),
    "fedspa": FedSpa(**OPTIONS, density=0.4),
    "fedspa-rsm": FedSpa(**OPTIONS, density=0.4, search="rsm"),
    "fedspa:search=set": FedSpa(**OPTIONS, density=0.4, masks="different", search="set", distribution="uniform"),
    "fedspa:search=snip": FedSpa(**OPTIONS, density=0.4, search="snip"),
}


def without_times(value: Any) -> Any:
    """Return metrics without measured times."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def bits(state: State) -> dict[str, bytes]:
    return {f"{name}/{p}": array.tobytes() for name, params in state.arrays.items() for p, array in params.items()}


def as_bytes(params: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in params.items()}


class Expected:
    """The result of simulate for a method."""

    def __init__(self, path: Path, method: Algorithm, rules: Rules = RULES) -> None:
        self.state, self.log_records = simulated(path, method, rules)
        journal = Journal(path)
        self.models = [journal.load_client_state(client) for client in range(CLIENTS)]
        journal.close()

    def check(self, world: World) -> None:
        """The world is over, and equal: global state, every line of metrics, every personal model."""
        assert world.done
        assert all(phone.finished for phone in world.phones)
        found = run_history.final_state(world.path)
        assert bits(found) == bits(self.state)
        assert found.values == self.state.values
        assert without_times(run_history.metrics(world.path)) == json.loads(json.dumps(without_times(self.log_records)))
        for phone, mine in zip(world.phones, self.models, strict=True):
            if mine is not None:
                assert not mine.params or as_bytes(phone.model) == as_bytes(mine.params)
                assert phone.private == mine.private
                assert as_bytes(state_file.flat(phone.arrays)) == as_bytes(state_file.flat(mine.arrays))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Expected]:
    return {name: Expected(tmp_path_factory.mktemp(name), method) for name, method in METHODS.items()}


@pytest.mark.parametrize("name", METHODS)
def test_a_served_run_equals_simulate(name: str, expected: dict[str, Expected], tmp_path: Path) -> None:
    world = World(tmp_path, METHODS[name])
    world.finish()
    expected[name].check(world)


@pytest.mark.parametrize("name", ["fedspu", "scaffold"])
def test_a_served_run_of_whole_numbers_equals_simulate(name: str, tmp_path: Path) -> None:
    rules = replace(RULES, aggregation_settings=AggregationSettings(AggregationRule.parse("exact")))
    expected = Expected(tmp_path / "simulated", METHODS[name], rules)
    world = World(tmp_path / "served", METHODS[name], rules)
    world.finish()
    expected.check(world)
    assert all(record["limited_values"] == 0 for record in expected.log_records)


def records_of_a_run(path: Path) -> int:
    world = World(path)
    world.finish()
    return len(world.saved)


@pytest.mark.parametrize("is_durable", [True, False], ids=["after the record is durable", "before it is"])
def test_a_server_killed_at_every_record_ends_the_same(
    is_durable: bool, expected: dict[str, Expected], tmp_path: Path
) -> None:
    count = records_of_a_run(tmp_path / "whole")
    assert count > 20
    for number in range(count):
        world = World(tmp_path / str(number))
        while len(world.saved) + len(world.unsaved) <= number:
            world.steps()[-1]()
        while len(world.saved) < number:
            world.save(1)
        if is_durable:
            world.store.save([world.unsaved[0]])  # and the process dies before anybody hears of it
        world.restart_server()
        world.finish()
        expected["fedspu"].check(world)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(METHODS)), data=st.data())
def test_faults_at_random_change_nothing(
    name: str, data: st.DataObject, expected: dict[str, Expected], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any order of deliveries, lost messages, repeated connections, crashes of the server: the same result."""
    world = World(tmp_path_factory.mktemp("world"), METHODS[name])
    for _ in range(data.draw(st.integers(0, 120), label="steps")):
        steps = world.steps()
        choice = data.draw(st.integers(0, 9), label="choice")
        client = data.draw(st.integers(0, CLIENTS - 1), label="client")
        if choice < 6 and steps:
            steps[data.draw(st.integers(0, len(steps) - 1), label="step")]()
        elif choice == 6:
            world.disconnect(client)
        elif choice == 7:
            world.connect(client)
        elif choice == 8:
            world.save()
        elif choice == 9 and data.draw(st.booleans(), label="restart"):
            world.restart_server()
    world.finish()
    expected[name].check(world)
    world.store.close()


def test_the_rules_are_checked() -> None:
    with pytest.raises(ValueError, match=r"quorum=0; expected quorum >= 1"):
        replace(RULES, quorum=0)
    with pytest.raises(ValueError, match=r"deadline_s=inf; expected a finite time > 0"):
        replace(RULES, deadline_s=float("inf"))

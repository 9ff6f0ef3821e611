"""Asynchronous rounds of modelled devices. A full buffer is a run that waits, and workers change nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgefl import simulate
from edgefl.errors import RunError
from edgefl.experiment.device_models.device_assignment import Fleet, SimulatedDevice
from edgefl.experiment.settings import Settings
from edgefl.methods import (
    PFLEGO,
    Ditto,
    FedAvg,
    FedAvgFT,
    FedPer,
    FedProx,
    FedRep,
    FedSPU,
    FedSPUCached,
    FjORD,
    RandomDropout,
)
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.study.simulation.journal import Journal, read_metrics
from edgefl.study.simulation.replay import difference
from edgefl.study.simulation.round_loop import simulate as run_rounds
from tests.server.served import FEDERATION
from tests.study.simulation.test_simulate_devices import FAST, SLOW

FLEET = Fleet(
    (SimulatedDevice("slow", replace(SLOW, macs_per_second=1e3), clients=(0,)), SimulatedDevice("fast", FAST))
)
TIERS = (0.5, 1.0)
METHODS: list[Algorithm] = [
    FedSPU(keep=TIERS, epochs=1, batch=4, lr=0.1, per_round=3),
    FedSPU(keep=TIERS, epochs=1, batch=4, lr=0.5, per_round=3, es=True),
    FedAvg(epochs=1, batch=4, per_round=3),
    FedAvgFT(epochs=1, batch=4, per_round=3),
    FedProx(epochs=1, batch=4, per_round=3),
    FedPer(epochs=1, batch=4, per_round=3),
    FedRep(epochs=1, batch=4, per_round=3),
    Ditto(epochs=1, batch=4, per_round=3),
    RandomDropout(keep=TIERS, epochs=1, batch=4, lr=0.1, per_round=3),
    FjORD(keep=TIERS, epochs=1, batch=4, lr=0.1, per_round=3),
    PFLEGO(tau=2, per_round=3),
    FedSPUCached(keep=TIERS, budget=(0.3, 1.0), epochs=1, batch=4, lr=0.1, per_round=3),
]


def run(path: Path, method: Algorithm, how: AsynchronousRounds | None, **more: Any) -> tuple[Any, list[dict[str, Any]]]:
    journal = Journal(path)
    try:
        settings = Settings(rounds=6, eval_every=6, fleet=FLEET, asynchronous=how, **more)
        return run_rounds(method, FEDERATION, settings, journal), list(read_metrics(path))
    finally:
        journal.close()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_full_buffer_has_the_bits_of_rounds_that_wait(method: Algorithm, tmp_path: Path) -> None:
    waits, its_lines = run(tmp_path / "waits", method, None)
    full, lines = run(tmp_path / "full", method, AsynchronousRounds(buffer=3, tasks=3, max_staleness=2))
    assert difference(waits, full) is None
    assert [line["virtual"] for line in lines] == [line["virtual"] for line in its_lines]


def test_fast_devices_do_not_wait_for_the_slow_one(tmp_path: Path) -> None:
    """Client 0 is slow. Every other client has several tasks before its reply arrives, with the right staleness."""
    method, rounds = METHODS[2], AsynchronousRounds(buffer=1, tasks=2, max_staleness=9)
    _, lines = run(tmp_path / "run", replace(method, per_round=2), rounds)
    _, waiting = run(tmp_path / "waits", replace(method, per_round=2), None)
    assert lines[-1]["virtual"]["ended"] < waiting[-1]["virtual"]["ended"] / 2
    assert [len(line["clients"]) for line in lines] == [1] * 6
    assert all(line["virtual"]["began"] == before["virtual"]["ended"] for before, line in pairwise(lines))
    assert max(each.get("staleness", 0) for line in lines for each in line["clients"]) >= 1


def test_a_slow_task_is_given_up_and_its_client_keeps_what_it_trained(tmp_path: Path) -> None:
    rounds = AsynchronousRounds(buffer=3, tasks=4, max_staleness=0)
    _, lines = run(tmp_path / "run", replace(METHODS[0], per_round=4), rounds)
    (late,) = (each for each in lines[0]["clients"] if each["status"] == "late")
    assert late["client"] == 0
    assert late["up"] > 0
    assert (tmp_path / "run" / "clients" / "0000").exists()
    assert all(each["client"] for each in lines[1]["clients"]), "client 0 trains until its first task is done"


def test_workers_change_nothing(tmp_path: Path) -> None:
    rounds = AsynchronousRounds(buffer=2, tasks=3, max_staleness=5)
    one, _ = run(tmp_path / "one", METHODS[0], rounds)
    three, _ = run(tmp_path / "three", METHODS[0], rounds, workers=3)
    assert difference(one, three) is None


def test_a_run_that_was_broken_off_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Replies that wait are not kept, so it begins again."""
    rounds = AsynchronousRounds(buffer=1, tasks=3, max_staleness=5)
    whole, _ = run(tmp_path / "whole", METHODS[0], rounds)
    journal = Journal(tmp_path / "broken")

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 4:
            raise KeyboardInterrupt

    settings = Settings(rounds=6, eval_every=6, checkpoint_every=1, fleet=FLEET, asynchronous=rounds)
    with pytest.raises(KeyboardInterrupt):
        run_rounds(METHODS[0], FEDERATION, settings, journal, stop)
    journal.close()
    again, lines = run(tmp_path / "broken", METHODS[0], rounds, checkpoint_every=1)
    assert difference(whole, again) is None
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_what_a_simulation_cannot_do_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="buffer=2 without devices; expected devices, such as mixed"):
        simulate("fedavg", buffer=2, rounds=1, directory=tmp_path / "run", progress=False)
    small = {"clients": 4, "per_round": 2, "buffer": 1, "devices": "mixed", "epochs": 1, "progress": False}
    simulate("fedavg", rounds=1, directory=tmp_path / "run", **small)
    with pytest.raises(RunError, match="was run with rounds=1, not 2, and ended with open tasks"):
        simulate("fedavg", rounds=2, directory=tmp_path / "run", **small)

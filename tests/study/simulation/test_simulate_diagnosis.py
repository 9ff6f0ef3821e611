"""A diagnosis changes no bit of a run, and only evaluated rounds have one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.methods import build
from edgefl.methods.rounds import state_file
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

SMALL = Experiment(methods=("fedspu",), model="pflego_mlp", clients=4, per_round=2, rounds=3, epochs=2)
OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "keep": (0.5, 1.0), "lr": 0.05, "accuracy": 0.0, "rounds": 3}
ROUNDS = Settings(rounds=3, eval_every=2)


@cache
def federation() -> Federation:
    return assemble(SMALL)


def played(path: Path, name: str, settings: Settings) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The bits of the server's state and of what the clients keep, and the lines of metrics without times."""
    with closing(Journal(path)) as journal:
        state = simulate(build(name, OPTIONS), federation(), settings, journal)
        found = {key: array.tobytes() for key, array in state_file.flat(state.arrays).items()}
        for client in range(SMALL.clients):
            kept = journal.load_client_state(client)
            found |= {f"{client}/{key}": array.tobytes() for key, array in (kept.flat() if kept else {}).items()}
        lines = [{key: each[key] for key in each if key not in ("seconds", "clients")} for each in journal.metrics()]
    return found, lines


@pytest.mark.parametrize("name", ["fedspu", "fedspa", "fedselect", "random-dropout"])
def test_a_diagnosis_changes_no_bit_of_a_run(name: str, tmp_path: Path) -> None:
    plain = played(tmp_path / "plain", name, ROUNDS)
    found, lines = played(tmp_path / "asked", name, replace(ROUNDS, diagnose=True, workers=2))
    assert found == plain[0]
    assert ["diagnosis" in each for each in lines] == [False, True, True]
    diagnosed = [each.pop("diagnosis") for each in lines if "diagnosis" in each]
    assert lines == plain[1]
    assert all(0 < each["overlap"] <= 1 for each in diagnosed)
    assert (diagnosed[0]["ratio"] is None) == (name == "random-dropout")
    if name == "fedspa":
        assert diagnosed[0]["mask_drift"] > 0 and diagnosed[1]["mask_drift"] == 0  # no mask moves in the last round
    if name == "fedspu":
        full = [each for each in diagnosed[0]["clients"] if each["client"] > 1]  # their p is 1
        assert all(each["ratio"] == each["expected_ratio"] == 1 for each in full)


def test_a_diagnosis_that_cannot_be_is_refused_before_the_run() -> None:
    asked = replace(SMALL, diagnose=True)
    assert "diagnose" not in SMALL.to_json() and Experiment.from_json(asked.to_json()).diagnose
    with pytest.raises(ValueError, match="diagnose with fedavg, whose clients train the whole model; expected methods"):
        replace(asked, methods=("fedspu", "fedavg")).algorithms()
    with pytest.raises(ValueError, match="diagnose with a server; expected it in a simulation only"):
        asked.check_served()

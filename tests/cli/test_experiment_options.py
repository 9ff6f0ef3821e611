"""The experiment that options stand for: what was given, and what is taken for the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli import cli
from edgefl.cli.experiment_options import experiment_of
from edgefl.experiment.settings import Experiment
from edgefl.methods import PFLEGO
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.round_closing import AggregationSettings


@pytest.mark.parametrize(
    ("options", "per_round"),
    [
        ({}, 5),
        ({"clients": 6}, 5),
        ({"clients": 4}, 4),
        ({"clients": 4, "per_round": 2}, 2),
        ({"clients": 12, "data": "mnist"}, 10),
        ({"clients": 6, "data": "mnist"}, 6),
    ],
    ids=str,
)
def test_no_more_clients_a_round_by_default_than_there_are(options: dict[str, Any], per_round: int) -> None:
    assert experiment_of(options, None).per_round == per_round


@pytest.mark.parametrize("options", [{"per_round": 5}, {"set": ["per_round=5"]}], ids=str)
def test_a_number_of_clients_a_round_that_was_given_is_not_lowered(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="per_round=5; expected 1 <= per_round <= 4 clients"):
        experiment_of({"clients": 4, **options}, None)


def test_no_clients_are_refused() -> None:
    with pytest.raises(ValueError, match="clients=0; expected clients >= 1"):
        experiment_of({"clients": 0}, None)


def test_four_devices_are_partitioned_their_samples(tmp_path: Path) -> None:
    assert cli.main(["partition", "--clients", "4", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"device-000{client}.npz" for client in range(4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregation": "krum"}, "aggregation=krum; expected mean, exact, clipped, trimmed:K or median with K >= 1"),
        ({"aggregation": "trimmed:3"}, "per_round=5; expected per_round >= 7 with aggregation=trimmed:3"),
        ({"aggregation": "median", "per_round": 2}, "per_round=2; expected per_round >= 3 with aggregation=median"),
        ({"bound": "drop"}, "bound=drop; expected off, clip, clip:FACTOR, refuse or refuse:FACTOR"),
        ({"max_examples": 0}, "max_examples=0; expected max_examples >= 1"),
    ],
    ids=str,
)
def test_what_no_server_does_with_replies_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        experiment_of(options, None)


def test_what_the_server_does_with_replies_is_part_of_the_experiment() -> None:
    found = Experiment.from_json(experiment_of({"aggregation": "trimmed:2", "bound": "clip:9"}, None).to_json())
    assert found.aggregation_settings(largest=40) == AggregationSettings(
        AggregationRule("trimmed", 2), UpdateNormBound("clip", 9.0), 40
    )
    assert experiment_of({"max_examples": 7}, None).aggregation_settings(largest=40).most_examples == 7


def test_runs_of_before_there_was_a_choice_take_the_mean() -> None:
    before = {name: value for name, value in Experiment().to_json().items() if name not in ("fold", "bound")}
    assert Experiment.from_json(before).aggregation_settings() == AggregationSettings()


def test_the_simulation_ends_with_a_sentence_where_nobody_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bound that no reply keeps."""
    options = ["--method", "fedavg", "--clients", "3", "--per-round", "3", "--epochs", "1", "--lr", "1e30"]
    run = ["simulate", *options, "--run-dir", str(tmp_path / "run"), "--max-empty-rounds", "2"]
    assert cli.main(run) == 1
    said = capsys.readouterr().err
    assert "no reply was accepted in rounds 1 to 2 (the last refusal: reply of client 2 " in said
    assert "round 1: refused: reply of client 0 has a non-finite value in model/" in said
    assert cli.main(["simulate", "--resume", str(tmp_path / "run"), "--max-empty-rounds", "1"]) == 1
    assert "no reply was accepted in round 3 (" in capsys.readouterr().err


def test_pflego_and_fedrecon_begin_with_rates_that_serve_unless_others_are_set() -> None:
    """run.json has them, so that runs from before, which lack them, keep the defaults of the methods' files."""
    begins = {"server": "adam", "beta": 0.02, "rho": 0.003}
    for name in ("pflego", "fedrecon"):
        chosen = experiment_of({"method": [f"fedper,{name}"]}, None)
        assert dict(chosen.options) == begins
        method = chosen.algorithms()[name]
        assert {key: getattr(method, key) for key in begins} == begins
        assert Experiment.from_json(chosen.to_json()) == chosen.with_evaluation_rounds()
    chosen = experiment_of({"method": ["pflego"], "set": ["rho=.5", "server=sgd"]}, None)
    assert dict(chosen.options) == {"server": "sgd", "beta": 0.02, "rho": 0.5}
    of_row = experiment_of({"method": ["pflego:beta=.1"]}, None).algorithms()["pflego:beta=0.1"]
    assert of_row.beta == 0.1  # type: ignore[attr-defined]
    paper = experiment_of({"method": ["pflego"], "preset": "pflego-high", "data": "mnist"}, None)
    assert (dict(paper.options)["beta"], dict(paper.options)["rho"]) == (0.189, 0.003)
    assert PFLEGO().server == "sgd" and dict(experiment_of({"method": ["fedavg"]}, None).options) == {}

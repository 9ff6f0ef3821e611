"""The comparison of methods: who takes part, how a rate is chosen, what the tables say, and that no run is repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.papers import command, comparison, comparison_run
from bench.papers.comparison import COMPARISON, HELD_OUT, METHODS, THINNED, WORKLOADS
from bench.papers.comparison_run import chosen, found, shortened
from bench.papers.comparison_table import at, compared, orders, verdict
from bench.papers.pieces import piece
from edgefl.errors import RunError
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.tuned_values import combinations
from edgefl.methods import build
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.study.comparison import Figure
from edgefl.study.summary import Summary


@pytest.mark.parametrize(("workload", "shape", "features"), [("digits", (1, 8, 8), 256), ("emnist", (1, 28, 28), 980)])
def test_a_workload_s_model_is_fedspu_s_without_batch_norms(workload: str, shape: Any, features: int) -> None:
    graph = comparison.model(WORKLOADS[workload], shape, 10)
    assert graph.parameters()["fc.weight"].shape == (10, features)
    assert all(param.kind == "learn" for param in ModelSpec.of(graph).params.values())


def test_speakers_are_partitioned_to_groups() -> None:
    values = np.random.RandomState(1)
    speakers = np.repeat(np.arange(0, 60, 3), 5).astype(np.int32)  # 20 of them, with gaps
    speakers[:2] = -1
    data = DataSet("made up", values.rand(100, 1, 2, 2).astype(np.float32), np.zeros(100, np.int32), 2, 1, 0, speakers)
    grouped = comparison._in_groups(data, 8, seed=1).groups
    assert grouped is not None
    each = [set(speakers[grouped == group].tolist()) for group in range(8)]
    assert sorted(map(len, each)) == [2, 2, 2, 2, 3, 3, 3, 3]
    assert set().union(*each) == set(range(0, 60, 3))
    assert grouped[:2].tolist() == [-1, -1]


def test_a_thinned_place_has_some_of_the_samples_and_other_ones_for_another_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = replace(WORKLOADS["digits"], settings={**WORKLOADS["digits"].settings, "clients": 10}, samples=500)
    monkeypatch.setitem(THINNED, "digits-500", small)
    runs = [comparison.run(COMPARISON, "digits-500", "Local", 0.1, seed).experiment for seed in (1, 2)]
    thin, other = (comparison.federation(experiment, None).data for experiment in runs)
    assert len(thin) == len(other) == 500
    assert not np.array_equal(thin.y, other.y)
    whole = comparison.run(COMPARISON, "digits", "Local", 0.1, 1).experiment
    assert len(comparison.federation(whole, None).data) == 1797


def test_every_method_gets_its_rate_where_it_has_one() -> None:
    for name in METHODS:
        run = comparison.run(COMPARISON, "fashion", name, 0.07, 2)
        ((label, method),) = run.experiment.algorithms().items()
        rate = method.beta if name == "PFLEGO" else method.lr
        assert (rate, run.experiment.seed, run.experiment.rounds, ":" in run.name) == (0.07, 2, 60, False), label
        tried = comparison.tuned(COMPARISON, "fashion", name).experiment
        assert combinations(tried.tune, tried.methods[0]) == [
            {METHODS[name].rate: rate} for rate in WORKLOADS["fashion"].rates
        ]
    assert len({comparison.run(COMPARISON, "digits", name, 0.1, 2).name for name in METHODS}) == len(METHODS)


def test_a_method_waits_for_its_rate_and_may_take_another_s(tmp_path: Path) -> None:
    assert chosen(COMPARISON, tmp_path, "digits", "FedSPU") is None
    run = comparison.tuned(COMPARISON, "digits", "FedSPU")
    piece(tmp_path, run.name, lambda: {"experiment": run.experiment.to_json(), "chosen": {"lr": 0.3}})
    assert found(COMPARISON, tmp_path, "digits") == {"FedSPU": (0.3, {}), "FedSPU + ES": (0.3, {})}


def summary(method: str, accuracy: float, payload: int) -> Summary:
    evaluation = {"personal": {"accuracy": accuracy, "loss": 1.0, "correct": [8, 6], "examples": [10, 10]}}
    curve = [
        {"round": 1, "payload_bytes": payload // 2, "accuracy": accuracy / 2},
        {"round": 2, "payload_bytes": payload, "accuracy": accuracy},
    ]
    sizes = {"down": {"values": payload}, "up": {"values": 0}, "dense_bytes": payload, "server": {}, "tiers": []}
    counts = {"rounds": 2, "client_rounds": 4, "refused": 0, "excluded": 0, "clipped": 0, "seconds": 1.0}
    return Summary(method=method, evaluation=evaluation, curve=curve, **sizes, **counts)  # type: ignore[arg-type]


def test_orders_are_met_by_the_differences_over_seeds() -> None:
    pairs = zip((0.80, 0.82, 0.84), (0.78, 0.79, 0.83), strict=True)
    known: Any = {"FedSPU": (0.1, {}), "Local": (0.1, {}), "Ditto": (0.1, {1: summary("Ditto", 0.5, 10)})}
    for seed, (ours, local) in enumerate(pairs, 1):
        known["FedSPU"][1][seed] = summary("FedSPU", ours, 50)
        known["Local"][1][seed] = summary("Local", local, 100)
    table = compared(known)
    assert table is not None
    assert list(table.rows) == ["FedSPU", "Local"]  # Ditto has not all seeds
    ((order, off, said),) = orders(table)
    assert (order.better, order.worse, said) == ("FedSPU", "Local", "met")
    assert (off.mean, off.spread) == (pytest.approx(2.0), pytest.approx(1.0))
    assert at(table.rows["FedSPU"].payload_bytes, known["Local"][1], "payload_bytes").values == (0.39, 0.395, 0.415)


def test_a_difference_within_two_errors_is_said() -> None:
    assert verdict(Figure((1.0, -0.5, 1.0))) == "met, within two errors"
    assert verdict(Figure((-3.0, -2.5, -3.0))) == "not met"
    assert verdict(Figure((1.0,))) == "met, one seed"
    assert verdict(Figure((1.0, None))) == "a seed is missing"


def test_fractions_are_shortened() -> None:
    assert shortened({"a": [1.23456789, 7], "b": {"c": None}}) == {"a": [1.23457, 7], "b": {"c": None}}


def test_runs_are_recorded_once_and_others_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(WORKLOADS["digits"], rates=(0.1,), rounds=(10, 2))
    monkeypatch.setitem(WORKLOADS, "digits", small)
    monkeypatch.setattr(comparison, "SEEDS", (1, 2))
    monkeypatch.setattr(comparison_run, "SEEDS", (1, 2))
    where = ["--places", "digits", "--dir", str(tmp_path / "runs"), "--results", str(tmp_path / "records")]
    assert command.main(["comparison", *where, "--methods", "FedSPU;Local"]) == 0
    first = capsys.readouterr()
    assert "FedSPU over Local (ours)" in first.out
    records = sorted(path.name for path in (tmp_path / "records").iterdir())
    assert records == [
        f"digits-{name}-{what}.json" for name in ("fedspu", "local") for what in ("rate", "seed1", "seed2")
    ]
    assert command.main(["comparison", *where, "--methods", "Local", "--part", "1/2"]) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "")  # nothing was run
    made = found(COMPARISON, tmp_path / "records", "digits")["FedSPU"][1][1]
    assert [point["round"] for point in made.curve] == list(range(1, 11))
    assert made.refreshed is not None  # of the last round alone
    monkeypatch.setitem(WORKLOADS, "digits", replace(small, rounds=(20, 2)))
    with pytest.raises(RunError, match="of a run with other settings"):
        found(COMPARISON, tmp_path / "records", "digits")


@pytest.mark.parametrize("given", [["--places", "mnist"], ["--methods", "FedSGD"], ["--part", "3/2"]])
def test_an_unknown_choice_is_named(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["comparison", *given])
    assert f"{given[1]!r}; expected" in capsys.readouterr().err


def test_the_comparison_with_clients_held_out_takes_the_rates_of_the_other() -> None:
    run = comparison.run(HELD_OUT, "digits", "FedAvg", 0.1, 2)
    assert (run.experiment.clients, run.experiment.held_out, run.experiment.refresh) == (20, 5, 0)
    assert comparison.tuned(HELD_OUT, "digits", "FedAvg") == comparison.tuned(COMPARISON, "digits", "FedAvg")
    assert METHODS.keys() - HELD_OUT.methods.keys() == {"Local"}
    assert all(build(each.label, {}).has_newcomers for each in HELD_OUT.methods.values())

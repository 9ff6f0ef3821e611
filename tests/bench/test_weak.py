"""The study of weak devices: who has which device, whose rates serve, what the tables say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.papers import command, comparison, comparison_run
from bench.papers.comparison import COMPARISON, WORKLOADS
from bench.papers.comparison_run import RESULTS, chosen, found
from bench.papers.comparison_table import compared
from bench.papers.pieces import piece
from bench.papers.weak import KEEPING, SHAPES, WEAK, offered
from bench.papers.weak_table import by_tier, expected, spent
from edgefl.experiment.device_models.device_assignment import fleet_of
from edgefl.experiment.run_data import data_of
from edgefl.methods.sampling import tier
from edgefl.study.summary import Summary
from tests.papers_records import needs_records

TIERS = (0.2, 0.4, 0.6)


def test_runs_are_the_comparison_s_on_devices_that_are_always_there() -> None:
    for workload in WORKLOADS:
        for name in set(WEAK.methods) & set(COMPARISON.methods):
            ours, theirs = (comparison.run(study, workload, name, 0.1, 2).experiment for study in (WEAK, COMPARISON))
            assert replace(ours, devices="", eval_every=0) == replace(theirs, refresh=0, eval_every=0)
            tuned = [comparison.tuned(study, workload, name).experiment for study in (WEAK, COMPARISON)]
            assert tuned[0] == tuned[1]
    assert all(not device.profile.available and not device.profile.drop_out for device in fleet_of("mixed").devices)
    labels = {comparison.run(WEAK, "digits", name, 0.1, 2).experiment.methods[0] for name in WEAK.methods}
    assert {"fedspu-cached:lr=0.1", "random-dropout:lr=0.1", "fjord:lr=0.1"} < labels


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_weakest_device_has_the_weakest_tier_and_a_part_of_the_next(workload: str) -> None:
    experiment = comparison.run(WEAK, workload, "FedSPU", 0.1, 1).experiment
    devices = fleet_of(experiment.devices).assigned(experiment.clients)
    tiers: dict[str, set[float]] = {}
    for client, device in enumerate(devices):
        tiers.setdefault(device.name, set()).add(tier(experiment.keep, client, experiment.clients))
    assert tiers == {"mcu": {0.2, 0.4}, "phone-lte": {0.4, 0.6}, "pi4": {0.6, 0.8}, "orin-nano": {0.8, 1.0}}


def test_a_tier_s_offer_is_within_its_budget() -> None:
    data = data_of(comparison.run(WEAK, "digits", "FedSPU", 0.1, 1).experiment)
    assert SHAPES["digits"] == (data.input_shape, data.classes)
    weakest, next_one, *rest = offered("digits")
    assert (weakest.offer, next_one.offer) == ((0.2, "flatten"), (0.4, "flatten"))
    assert weakest.cost.macs < 0.12 * weakest.dense.macs < 0.4 * weakest.dense.macs < weakest.fedspu.macs
    assert all(each.offer == (each.keep, "") and each.cost == each.fedspu for each in rest)


def test_a_rate_of_the_comparison_serves_where_the_same_runs_chose_it(tmp_path: Path) -> None:
    here, there = tmp_path / "weak", tmp_path / "comparison"
    run = comparison.tuned(WEAK, "digits", "FedSPU")
    record = {"experiment": run.experiment.to_json(), "chosen": {"lr": 0.3}}
    assert chosen(WEAK, here, "digits", "FedSPU, cached") is None
    piece(there, run.name, lambda: {**record, "experiment": {**record["experiment"], "tune_rounds": 7}})
    assert chosen(WEAK, here, "digits", "FedSPU, cached") is None
    (there / f"{run.name}.json").unlink()
    piece(there, run.name, lambda: record)
    assert chosen(WEAK, here, "digits", "FedSPU, cached") == 0.3
    piece(here, run.name, lambda: {**record, "chosen": {"lr": 0.1}})
    assert chosen(WEAK, here, "digits", "FedSPU, cached") == 0.1  # its own first
    assert chosen(COMPARISON, there, "digits", "FedSPU") == 0.3


def summary(method: str, tiers: tuple[float, ...], seconds: float) -> Summary:
    """Reaches half of its accuracy in half of its time, and spends a joule and two bytes a second."""
    correct = [round(100 * share) for share in tiers]
    accuracy = sum(correct) / 100 / len(tiers)
    evaluation = {"personal": {"accuracy": accuracy, "loss": 1.0, "correct": correct, "examples": [100] * len(tiers)}}
    curve = [
        {
            "round": index,
            "accuracy": share * accuracy,
            "payload_bytes": 2 * share * seconds,
            "virtual_seconds": share * seconds,
            "virtual_joules": share * seconds,
            "device_seconds": share,
            "work": share,
        }
        for index, share in ((1, 0.5), (2, 1.0))
    ]
    rows = [{"keep": keep, "accuracy": share, "client_rounds": 1} for keep, share in zip(TIERS, tiers, strict=True)]
    sizes = {"down": {"values": 2 * seconds}, "up": {"values": 0}, "dense_bytes": 10, "server": {}, "tiers": rows}
    counts = {"rounds": 2, "client_rounds": 4, "refused": 0, "excluded": 0, "clipped": 0, "seconds": 1.0, "work": 1.0}
    return Summary(method=method, evaluation=evaluation, curve=curve, **sizes, **counts)  # type: ignore[arg-type]


MADE_UP = {
    "FedSPU": ((0.80, 0.80, 0.90), 40.0),
    "FedSPU, cached": ((0.84, 0.80, 0.86), 20.0),
    "random dropout": ((0.70, 0.85, 0.90), 10.0),
    "FedPer": ((0.60, 0.60, 0.60), 100.0),
    "PFLEGO": ((0.60, 0.60, 0.72), 20.0),
    "Local": ((0.50, 0.50, 0.50), 5.0),
}


def made_up() -> Any:
    """Return results of one seed of the methods above."""
    return {name: (0.1, {1: summary(name, tiers, seconds)}) for name, (tiers, seconds) in MADE_UP.items()}


def test_equal_time_is_that_of_the_thriftiest_with_personal_models() -> None:
    known = made_up()
    table = compared(known)
    assert table is not None
    what = spent(known, table)
    assert what is not None
    assert {name: least.values for name, least in what.least.items()} == {
        "bytes": (40.0,),
        "virtual-seconds": (20.0,),
        "joules": (20.0,),
    }  # neither Local's 5 s nor random dropout's 10
    assert what.wanted == pytest.approx(0.60)  # FedPer's, not Local's
    assert what.first["FedPer"]["joules"].values == (100.0,)
    assert what.first["FedSPU, cached"]["virtual-seconds"].values == (20.0,)
    assert what.first["Local"]["virtual-seconds"].values == (None,)
    del known["PFLEGO"]
    fewer = compared(known)
    assert fewer is not None
    assert spent(known, fewer) is None


def test_what_is_expected_is_checked_by_tier_and_at_equal_time() -> None:
    known = made_up()
    table = compared(known)
    assert table is not None
    said = {each.claim: (each.off.mean, each.said) for each in expected(known, table)}
    ours = "FedSPU, cached"
    assert said == {
        f"tier 0.2: {ours} over FedSPU": (pytest.approx(4), "met, one seed"),
        f"tier 0.4: {ours} over FedSPU": (0, "met, one seed"),  # at least as much is enough
        f"tier 0.6: {ours} over FedSPU": (pytest.approx(-4), "not met, one seed"),
        f"tier 0.2: {ours} over random dropout": (pytest.approx(14), "met, one seed"),
        f"tier 0.4: {ours} over random dropout": (pytest.approx(-5), "not met, one seed"),
        f"at equal virtual-seconds: {ours} over FedSPU": (pytest.approx(250 / 3 - 125 / 3), "met, one seed"),
        f"at equal virtual-seconds: {ours} over FedPer": (None, "a seed is missing"),  # it takes 50 s to its first
        f"at equal virtual-seconds: {ours} over PFLEGO": (pytest.approx(250 / 3 - 64), "met, one seed"),
        f"at equal joules: {ours} over FedSPU": (pytest.approx(250 / 3 - 125 / 3), "met, one seed"),
        f"at equal joules: {ours} over FedPer": (None, "a seed is missing"),
        f"at equal joules: {ours} over PFLEGO": (pytest.approx(250 / 3 - 64), "met, one seed"),
    }
    del known[ours]
    without = compared(known)
    assert without is not None
    assert expected(known, without) == []


def test_a_small_study_is_run_recorded_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**WORKLOADS["digits"].settings, "per_round": 3, "epochs": 2}
    small = replace(WORKLOADS["digits"], settings=settings, rates=(0.1,), rounds=(20, 1))
    monkeypatch.setitem(WORKLOADS, "digits", small)
    for module in (comparison, comparison_run):
        monkeypatch.setattr(module, "SEEDS", (1,))
    where = ["--places", "digits", "--dir", str(tmp_path / "runs"), "--results", str(tmp_path / "weak")]
    assert command.main(["weak", *where, "--methods", ";".join(KEEPING)]) == 0
    first = capsys.readouterr()
    assert "at equal joules: FedSPU, cached over PFLEGO" in first.out
    assert "digits-fedspu-cached-rate" not in first.err  # it has FedSPU's
    assert command.main(["weak", *where, "--methods", ";".join(KEEPING)]) == 0
    assert capsys.readouterr() == (first.out, "")
    known = found(WEAK, tmp_path / "weak", "digits")
    assert set(known) == set(KEEPING)
    made = {name: summaries[1] for name, (_, summaries) in known.items()}
    assert [point["round"] for point in made["FedPer"].curve] == list(range(1, 21))
    seconds = {name: each.virtual_seconds for name, each in made.items()}
    assert seconds["FedSPU, cached"] < seconds["FedSPU"] < seconds["FedPer"]  # type: ignore[operator]


@needs_records
def test_both_studies_have_seen_the_same_accuracy_where_both_have_run() -> None:
    """Devices change times, not models. Records of different machines, or of older versions, may differ in bits."""
    compared_runs = 0
    for workload in WORKLOADS:
        ours, theirs = (found(study, RESULTS / study.name, workload) for study in (WEAK, COMPARISON))
        for name in ours.keys() & theirs.keys():
            made, again = ours[name][1], theirs[name][1]
            for seed in made.keys() & again.keys():
                assert made[seed].accuracy == pytest.approx(again[seed].accuracy, abs=0.01), (workload, name, seed)
                compared_runs += 1
    assert compared_runs >= 15  # of the digits, five methods on three seeds


def test_tiers_are_figures_over_seeds() -> None:
    made = {1: summary("FedSPU", (0.1, 0.2, 0.3), 1.0), 2: summary("FedSPU", (0.3, 0.4, 0.5), 1.0)}
    assert [figure.values for figure in by_tier(made)] == [(0.1, 0.3), (0.2, 0.4), (0.3, 0.5)]

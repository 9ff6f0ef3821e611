"""FedSPU beside adapted methods: the trials of adapting, the runs that follow, and the rule by which one is ahead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.papers import command, comparison
from bench.papers.adapted import ADAPTED, FEDSPU, leads
from bench.papers.comparison import WORKLOADS
from bench.papers.comparison_run import adapted, found
from edgefl.experiment.tuned_values import combinations
from tests.bench.test_comparison import summary

HEAD = "random dropout, adapted"


def test_an_adapted_row_takes_a_rate_and_has_four_trials_of_adapting() -> None:
    trials = comparison.adapted(ADAPTED, "digits", HEAD, 0.1).experiment
    assert (trials.tune_rounds, trials.seed, len(trials.tune)) == (20, 1, 2)
    assert combinations(trials.tune, trials.methods[0]) == [
        {"ft": 1, "ft_lr": 0.1}, {"ft": 1, "ft_lr": 0.3}, {"ft": 5, "ft_lr": 0.1}, {"ft": 5, "ft_lr": 0.3}
    ]  # fmt: skip
    run = comparison.run(ADAPTED, "digits", HEAD, 0.1, 2, {"ft": 5, "ft_lr": 0.3}).experiment
    ((_, method),) = run.algorithms().items()
    assert (method.lr, method.ft, method.ft_lr, method.ft_part) == (0.1, 5, 0.3, "head")
    plain = comparison.run(ADAPTED, "digits", "random dropout", 0.1, 2).experiment
    assert replace(run, methods=plain.methods) == plain  # the same federation, rounds and seed


# by case: percent of FedSPU and of the other by seed, and what is said of FedSPU. The t of two degrees is 4.303
LEADS = {
    "one seed": ((90.0,), (80.0,), "+10.0 (one seed)", "one seed"),
    "no seed in common is left out": ((90.0,), (), None, None),
    "ahead": ((90.0, 91.0, 92.0), (80.0, 80.0, 80.0), "+11.0 (+8.5 to +13.5)", "ahead"),  # 4.303 * 1 / sqrt 3 = 2.48
    "behind": ((80.0, 80.0, 80.0), (90.0, 91.0, 92.0), "-11.0 (-13.5 to -8.5)", "behind"),
    "none": ((90.0, 91.0, 92.0), (89.0, 89.0, 89.0), "+2.0 (-0.5 to +4.5)", "no difference shown"),
}


@pytest.mark.parametrize("case", LEADS)
def test_fedspu_is_ahead_where_the_whole_interval_is(case: str) -> None:
    ours, theirs, text, said = LEADS[case]
    known: Any = {
        label: (0.1, {seed: summary(label, value / 100, 10) for seed, value in enumerate(values, 1)})
        for label, values in ((FEDSPU, ours), (HEAD, theirs))
    }
    found_leads = leads(known)
    assert [(lead.other, str(lead), lead.said) for lead in found_leads] == (
        [] if text is None else [(HEAD, text, said)]
    )


def test_a_seed_of_an_adapted_row_is_run_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**WORKLOADS["digits"].settings, "per_round": 3, "epochs": 1}
    monkeypatch.setitem(
        WORKLOADS, "digits", replace(WORKLOADS["digits"], settings=settings, rates=(0.1,), rounds=(10, 1))
    )
    where = ["--places", "digits", "--dir", str(tmp_path / "runs"), "--results", str(tmp_path / "adapted")]
    assert command.main(["adapted", *where, "--methods", HEAD, "--seeds", "2"]) == 0
    assert "random dropout, adapted" in capsys.readouterr().out
    chosen = adapted(ADAPTED, tmp_path / "adapted", "digits", HEAD, 0.1)
    assert chosen is not None
    assert (set(chosen), chosen["ft"] in (1, 5), chosen["ft_lr"] in (0.1, 0.3)) == ({"ft", "ft_lr"}, True, True)
    made = found(ADAPTED, tmp_path / "adapted", "digits")[HEAD][1]
    assert [(seed, each.kind) for seed, each in made.items()] == [(2, "adapted")]
    with pytest.raises(SystemExit):
        command.main(["adapted", *where, "--seeds", "9"])

"""The small tables of FedUmf and PFLEGO: the drawn data, orders of rounds and losses, and runs that are one run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.papers import command, fedumf_appendix, pflego_figures, published, rivals, seconds, synthetic
from bench.papers.comparison import run, searched
from bench.papers.comparison_run import adapted, chosen, mean_of
from bench.papers.fair import FAIR
from bench.papers.fedumf_appendix import CLIENTS, SHARES
from bench.papers.rivals import FAIR_1
from bench.papers.table import Found, Row, Run, compare
from edgefl.errors import DataError
from edgefl.experiment.settings import Experiment
from edgefl.methods import build


def drawn(alpha: float, beta: float) -> Any:
    experiment = fedumf_appendix._synthetic_run((alpha, beta), "15 %", "fedavg", 1, True).experiment
    return synthetic.federation(replace(experiment, clients=4), None)


def test_synthetic_clients_share_a_labelling_unless_alpha_is_above_0() -> None:
    common = synthetic.Labelling.drawn(np.random.RandomState(1))
    for alpha, agrees in ((0.0, True), (1.0, False)):
        made = drawn(alpha, 0.0)
        assert np.array_equal(common.of(made.data.x), made.data.y) == agrees


def test_synthetic_inputs_have_the_variances_of_the_paper_and_a_mean_where_beta_is_above_0() -> None:
    values = np.random.RandomState([3, 1])
    x = np.concatenate([synthetic.drawn_inputs(values, 0.0) for _ in range(12)])
    assert len(x) >= 12 * 50
    assert x[:, 31].std() == pytest.approx(32**-0.6, rel=0.1)
    assert abs(x[:, 31].mean()) < 0.02
    assert abs(synthetic.drawn_inputs(values, 1.0).mean(0)).mean() > 0.3


def test_nine_tenths_of_a_synthetic_client_are_for_training() -> None:
    made = drawn(0.0, 1.0)
    for split in made.clients:
        count = len(split.train) + len(split.test)
        assert (len(split.train), len(split.validation)) == (int(0.9 * count), 0)
    assert sum(len(split.train) + len(split.test) for split in made.clients) == len(made.data)


def line(number: int, hits: int, loss: float) -> dict[str, Any]:
    return {"round": number, "clients": [{"correct": hits, "tested": 100, "loss": loss}]}


def test_orders_of_shares_and_rates() -> None:
    fast, slow = [line(1, 95, 0.1), line(2, 96, 0.1)], [line(1, 80, 0.3), line(2, 91, 0.2)]
    never = [line(1, 10, 2.0), line(2, 20, 1.9)]
    assert pflego_figures._falling(never, slow, fast) == Found(1.0, "3, 2, 1")
    assert pflego_figures._falling(fast, slow).value == 0
    assert pflego_figures._rounds(never) == Found(None, "not reached")
    assert pflego_figures._lower(slow, fast) == Found(1.0, "0.25, 0.1")
    assert pflego_figures._lower(fast, slow).value == 0


def test_a_row_over_seeds_has_a_t_interval() -> None:
    runs = tuple((fedumf_appendix._synthetic_run((0.0, 0.0), "15 %", "fedavg", seed, True),) for seed in (1, 2, 3))
    by_name = {each.name: [{"value": value}] for (each,), value in zip(runs, (10.0, 11.0, 12.0), strict=True)}
    row = Row("a", lambda lines: Found(lines[0]["value"]), runs)
    assert compare(row, by_name).interval == pytest.approx((11 - 2.4841, 11 + 2.4841), abs=1e-3)  # 4.3027 / sqrt 3
    assert compare(replace(row, runs=runs[:1]), by_name).interval is None


@pytest.mark.parametrize("quick", [True, False])
def test_runs_of_a_name_are_the_same_run(quick: bool) -> None:
    found: dict[str, Experiment] = {}
    for each in [*fedumf_appendix.tables(quick)[4:], *pflego_figures.tables(quick)]:
        for run_ in each.runs():
            assert found.setdefault(run_.name, run_.experiment) == run_.experiment
    synthetic_runs = 2 * 3 * 5 * 3  # shares, settings, methods, seeds
    assert len(found) == synthetic_runs + 3 * 6 + 8 + 3 + 8  # 65 %; tau; more shares; more rates
    assert (CLIENTS, SHARES) == (20, {"15 %": 3, "65 %": 13})


def test_rivals_have_one_rate_and_the_partition_of_their_table(tmp_path: Any) -> None:
    for alpha in rivals.ALPHAS:
        study = rivals.STUDIES[f"rivals-{alpha}"]
        for name in rivals.RIVALS:
            assert chosen(study, tmp_path, "emnist", name) == 0.1
            experiment = run(study, "emnist", name, 0.1, 1).experiment
            method: Any = next(iter(experiment.algorithms().values()))
            every = 10 if name.endswith("adapted") else 4
            assert (experiment.partition, experiment.rounds, experiment.eval_every) == (f"dirichlet:{alpha}", 20, every)
            assert method.lr == 0.1


def test_rivals_on_another_partition_take_the_values_that_fair_has_chosen(tmp_path: Path) -> None:
    trial = searched(FAIR, "digits", "Hermes", {}, 101)
    made = {"experiment": trial.experiment.to_json(), "chosen": {"lr": 0.2, "prune_rate": 0.1}}
    (tmp_path / "fair").mkdir()
    (tmp_path / "fair" / "digits-hermes-search.json").write_text(json.dumps(made), encoding="utf-8")
    assert chosen(FAIR_1, tmp_path / "fair-1", "digits", "Hermes") == 0.2
    assert adapted(FAIR_1, tmp_path / "fair-1", "digits", "Hermes", 0.2) == {"prune_rate": 0.1}
    assert chosen(FAIR_1, tmp_path / "fair-1", "digits", "FedMP") is None
    assert run(FAIR_1, "digits", "Hermes", 0.2, 1).experiment.partition == "dirichlet:1"


def test_a_trial_without_a_finite_loss_in_one_seed_has_no_score() -> None:
    assert mean_of({"lr": 1}, [{"accuracy": 0.5, "loss": 1.0}, {}]).loss is None
    assert mean_of({"lr": 1}, [{"accuracy": 0.5, "loss": 1.0}, {"accuracy": 1.0, "loss": 2.0}])[1:] == (0.75, 1.5)


def test_ratios_of_seconds_stand_beside_the_paper_s() -> None:
    assert seconds.rows({"seconds": {"PFLEGO": 2.0, "Ditto": 7.0}})["Ditto"] == [7.0, 3.5, 26.105, 26.105 / 7.024]
    for label in seconds.labels(50).values():
        build(label, {})


def test_a_table_without_data_is_not_run_and_the_next_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def no_data(run: Run, *_: Any) -> Any:
        asked.append(run.experiment.data)
        raise DataError(f"{run.experiment.data}: not found")

    monkeypatch.setattr(command, "metrics", no_data)
    tables = "published-fedspu-cifar10-1,published-fedumf-mnist"
    assert command.main(["published", "--tables", tables, "--dir", str(tmp_path), "--results", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "published-fedspu-cifar10-1: not run: no data: cifar10: not found",
        "published-fedumf-mnist: not run: no data: mnist: not found",
    ]
    assert asked == ["cifar10", "mnist"]


def test_published_tables_have_the_settings_of_their_presets() -> None:
    tables = {table.name: table for table in published.tables(quick=False)}
    run_ = tables["published-fedumf-mnist"].runs()[0].experiment
    assert (run_.rounds, run_.per_round, run_.batch, run_.lr, dict(run_.options)["lr_decay"]) == (
        100,
        15,
        50,
        0.1,
        0.998,
    )
    rows = {row.label: row.paper for row in tables["published-fedspu-speech-0.1"].rows}
    assert (rows["FedSPU"], rows["FjORD"]) == (35.14, 7.39)
    for each in tables["published-pflego-cifar10-no"].runs():
        each.experiment.algorithms()

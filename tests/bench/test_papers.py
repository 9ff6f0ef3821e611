"""Tables of papers: measures by hand, results over seeds, and runs that are neither repeated nor begun again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.papers import command, condensed, fedspa, fedspu, fedumf, letters, omniglot, pflego, runs
from bench.papers.measures import accuracy, bytes_up, last, rounds_to
from bench.papers.record import record, write
from bench.papers.show import draw
from bench.papers.table import Found, Row, Run, Table, compare
from edgefl.errors import RunError
from edgefl.experiment.settings import Experiment

UP = {"values": 8, "index": 1, "header": 1}


def log_records(*correct: int | None) -> list[dict[str, Any]]:
    """Return a run with these hits of 10 test samples. A round with None was not evaluated."""
    found: list[dict[str, Any]] = []
    for round, hits in enumerate(correct, 1):
        evaluated = {} if hits is None else {"evaluation": {"global_common": {"correct": hits, "examples": 10}}}
        found.append({"round": round, "up": UP, "seconds": 0.5, **evaluated})
    return found


def test_measures_by_hand() -> None:
    run = log_records(1, None, 7, 6, 8)
    assert [accuracy(log_record) for log_record in run] == [0.1, None, 0.7, 0.6, 0.8]
    assert (rounds_to(0.7, run), rounds_to(0.71, run), rounds_to(0.9, run)) == (3, 5, None)
    assert last(run, 2) == Found(pytest.approx(70.0), "highest 80.0")
    assert bytes_up(run) == 50


def test_accuracy_without_a_common_test_set_is_on_the_clients_own() -> None:
    assert accuracy({"evaluation": {"global_local": {"accuracy_weighted": 0.4}}}) == 0.4


def one(name: str, seed: int = 1) -> Run:
    settings: dict[str, Any] = {"clients": 4, "per_round": 2, "rounds": 4, "epochs": 1, "partition": "iid"}
    return Run(name, Experiment(methods=("fedavg",), seed=seed, eval_every=1, checkpoint_every=2, **settings))


def test_a_result_is_the_mean_over_the_seeds_that_can_be_compared() -> None:
    seeds = tuple((one(f"run{seed}", seed),) for seed in (1, 2, 3))
    row = Row("hits", lambda run: Found(accuracy(run[-1]), "seen"), seeds, paper=0.5)
    result = compare(row, {"run1": log_records(4), "run2": log_records(6), "run3": log_records(None)})
    assert (result.ours, result.difference, result.seeds) == (0.5, 0.0, (1, 2, 3))
    assert result.spread == pytest.approx(0.02**0.5)
    assert result.detail == "seen; seen; seen"
    nothing = compare(row, {"run1": log_records(None), "run2": log_records(None), "run3": log_records(None)})
    assert (nothing.ours, nothing.spread, nothing.difference) == (None, None, None)


def test_a_run_that_is_done_is_read_and_a_killed_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = runs.metrics(one("whole"), tmp_path, None)
    folder = tmp_path / "again"
    seen: list[int] = []
    carry_out = runs.simulate

    def killed(*arguments: Any) -> None:
        def after(log_record: dict[str, Any]) -> None:
            seen.append(log_record["round"])
            if seen == [1, 2, 3]:
                raise KeyboardInterrupt

        carry_out(*arguments, after)

    monkeypatch.setattr(runs, "simulate", killed)
    with pytest.raises(KeyboardInterrupt):
        runs.metrics(one("run"), folder, None)
    found = runs.metrics(one("run"), folder, None)
    assert seen == [1, 2, 3, 3, 4]  # round 3 was not committed
    assert [accuracy(log_record) for log_record in found] == [accuracy(log_record) for log_record in expected]
    assert runs.metrics(one("run"), folder, None) == found
    assert len(seen) == 5


def test_a_directory_with_another_run_is_refused(tmp_path: Path) -> None:
    runs.metrics(one("run"), tmp_path, None)
    with pytest.raises(RunError, match="was run with seed=1; expected 2"):
        runs.metrics(one("run", seed=2), tmp_path, None)


def table(run: Run) -> Table:
    row = Row("hits", lambda found: Found(accuracy(found[-1])), ((run,),), 0.5)
    return Table("hits", "Hits", "made up", (row,), {"all": {"ours": run}}, accuracy)


def test_a_record_holds_results_and_curves_and_is_written_as_json(tmp_path: Path) -> None:
    found = record(table(one("run")), {"run": log_records(3, None, 6)})
    assert found["curves"] == {"all": {"ours": [(1, 0.3), (3, 0.6)]}}
    assert found["runs"]["run"] == {"data": "digits", "partition": "iid", "seed": 1, "rounds": 3, "seconds": 1.5}
    assert found["results"][0]["difference"] == pytest.approx(0.1)
    path = write(found, tmp_path)
    assert json.loads(path.read_text()) == json.loads(json.dumps(found))


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    draw(record(table(one("run")), {"run": log_records(3, 6)}), tmp_path / "hits.svg")
    assert "<svg" in (tmp_path / "hits.svg").read_text()


# FedUmf's tables.


def test_ratio_of_rounds_needs_a_baseline_of_enough_rounds() -> None:
    average, fusion = log_records(1, 2, 3, 7), log_records(1, 7)
    assert fedumf.rounds_ratio(0.7, average, fusion, least=4) == Found(0.5, "2 / 4")
    assert fedumf.rounds_ratio(0.7, average, fusion) == Found(None, "2 / 4: too few to compare")
    assert fedumf.rounds_ratio(0.8, average, fusion) == Found(None, "never / never")


def test_order_of_alphas() -> None:
    fast, slow, never = log_records(7), log_records(1, 7), log_records(1)
    assert fedumf._in_order(0.7, fast, slow, slow, fast) == Found(1.0, "2, 2, 1; FedAvg 1")
    assert fedumf._in_order(0.7, never, fast, slow, slow).value == 0
    assert fedumf._in_order(0.7, never, never, never, never).value is None


@pytest.mark.parametrize("quick", [True, False])
def test_runs_of_a_name_are_the_same_run(quick: bool) -> None:
    found: dict[str, Experiment] = {}
    for each in fedumf.tables(quick):
        for row in each.rows:
            for run in (run for seed in row.runs for run in seed):
                assert found.setdefault(run.name, run.experiment) == run.experiment
    assert len(found) == 16 + 4 + 4 + 12


def test_whole_runs_have_the_paper_s_settings() -> None:
    run = fedumf._run("iid", 0.05, 0.5, 1.0).experiment
    assert (run.clients, run.per_round, run.rounds, run.epochs, run.batch, run.lr) == (100, 50, 150, 1, 50, 0.05)
    (method,) = run.algorithms().values()
    assert replace(method, fusion=0.1) == replace(  # type: ignore[type-var]
        method, fusion=0.1, momentum=0.5, weight_decay=5e-4, weight="uniform", lr_decay=1.0, clip=0.0
    )


def test_the_quick_command_writes_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fedumf", "--quick", "--tables", "alpha", "--json", "--dir", str(tmp_path)]
    assert command.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "quick" / "alpha.json").read_text())["results"] == found["results"]
    assert found["curves"]["IID"].keys() == {"FedAvg", "alpha 0.1", "alpha 0.5", "alpha 1"}


def test_results_do_not_depend_on_the_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for workers in ("1", "2"):
        where = ["--dir", str(tmp_path / workers), "--workers", workers]
        assert command.main(["fedumf", "--quick", "--tables", "alpha", "--json", *where]) == 0
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert one["results"] == two["results"] and one["curves"] == two["curves"]


def test_no_workers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["fedumf", "--quick", "--dir", str(tmp_path / "runs"), "--workers", "0"]) == 2
    assert capsys.readouterr().err == "--workers 0; expected at least 1\n"
    assert not (tmp_path / "runs").exists()


def test_an_unknown_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["fedspu", "--tables", "a1"]) == 2
    expected = "table 'a1'; expected some of fedspu-0.1, fedspu-0.5\n"
    assert capsys.readouterr().err == expected


# PFLEGO's tables.


def heads(*correct: int) -> list[dict[str, Any]]:
    """A run whose two clients of a round have these hits together, of 10 and 30 test samples."""
    return [
        {
            "clients": [
                {"correct": 0.0, "tested": 10.0, "seconds": 1.0},
                {"correct": hits, "tested": 30.0, "seconds": 3.0},
            ]
        }
        for hits in correct
    ]


def test_clients_that_were_tested_after_training_count_by_their_samples() -> None:
    run = heads(4, 20, 24)
    assert [pflego.tested(log_record) for log_record in run] == [0.1, 0.5, 0.6]
    assert pflego.last_tested(run, 2) == Found(pytest.approx(55.0), "50.0 to 60.0 in its rounds")
    assert pflego._is_better(heads(21), heads(20)) == Found(1.0, "52.50 against 50.00")
    assert pflego.early_tested(heads(*[20] * pflego.EARLY, 40)) == Found(50.0, "50.0 to 50.0 in its rounds")
    assert pflego.tested({"clients": [{"seconds": 1.0}]}) is None


def test_pflego_s_whole_runs_have_the_paper_s_settings() -> None:
    names: dict[str, Experiment] = {}
    for each in pflego.tables(False):
        for run in each.runs():
            assert names.setdefault(run.name, run.experiment) == run.experiment
    run = names["pflego-fashion-medium-fedper-seed1"]
    assert (run.clients, run.per_round, run.rounds, run.epochs, run.lr) == (100, 20, 200, 50, 0.007)
    omniglot = names["pflego-omniglot-pflego-seed1"]
    assert (omniglot.clients, omniglot.per_round, omniglot.rounds) == (50, 10, 300)


def test_pflego_s_quick_tables_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pflego", "--quick", "--tables", "pflego-fashion,pflego-omniglot", "--json", "--dir", str(tmp_path)]
    assert command.main(arguments) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [row["label"] for row in first["results"]] == [f"{name}-Pers, PFLEGO" for name in ("High", "Medium", "No")]
    assert second["curves"]["Omniglot"].keys() == {"PFLEGO", "FedRecon"}


def test_fedspa_s_whole_runs_have_the_paper_s_settings() -> None:
    for table in fedspa.tables(quick=False):
        for run in table.runs():
            experiment = run.experiment
            (name,), (method,) = experiment.methods, experiment.algorithms().values()
            assert (experiment.model, experiment.batch, experiment.lr) == ("lenet5", 128, 0.1)
            assert (method.lr_decay, method.weight_decay, method.momentum) == (0.998, 5e-4, 0)
            assert experiment.epochs + getattr(method, "personal_epochs", 0) == 5
            assert experiment.rounds == (fedspa.BRIEF if table.name == "fedspa-brief" else 100)
            assert (experiment.clients, experiment.per_round, name in run.name) == (100, 10, True)
    names = [{run.name for run in table.runs()} for table in fedspa.tables(quick=False)]
    assert [len(each) for each in names] == [3, 21, 7, 7, 7]
    assert len(names[1] & names[4]) == 1  # density .5 is run once


def test_fedspa_s_measures_by_hand() -> None:
    part = {"values": 100, "index": 7, "header": 3}

    def log_record(round: int, **accuracies: float) -> dict[str, Any]:
        evaluation = {kind: {"accuracy": value} for kind, value in accuracies.items()}
        return {"round": round, "down": part, "up": part, "clients": [{}], "evaluation": evaluation}

    run = [
        log_record(1),
        log_record(2, personal=0.5, global_local=0.2),
        log_record(3, personal=0.7, global_local=0.4),
        log_record(4),
    ]
    assert [fedspa.own(each) for each in run] == [None, 0.5, 0.7, None]
    assert (
        fedspa.own(log_record(1, global_local=0.1)) == 0.1 == fedspa.own(log_record(1, adapted=0.1, global_local=0.3))
    )
    assert fedspa.last_own(run) == Found(pytest.approx(60.0), "highest 70.0")
    assert fedspa.last_global(run).value == pytest.approx(30.0)
    assert fedspa.payload(run) == 4 * 2 * 110
    assert fedspa._rounds_to(0.6, run) == Found(3.0, "0 MB") and fedspa._rounds_to(0.9, run) == Found(
        None, "not reached"
    )
    assert fedspa._of_dense(run).value == pytest.approx(220 / (8 * fedspa.DENSE_VALUES))
    assert fedspa._is_better(run, run).value == 0 and fedspa._beats_global(run, run).value == 1


def test_fedspa_s_quick_tables_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["fedspa", "--quick", "--dir", str(tmp_path), "--tables", "fedspa-brief", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["label"] for row in found["results"]} >= {"DST", "FedAvg, the same run's global model", "Local"}
    assert all(run["rounds"] == 3 for run in found["runs"].values())


# FedSPU's tables, whose runs are kept in short.


def test_a_run_in_short_has_the_sums_between_evaluations() -> None:
    clients = [{"status": "on", "seconds": 2.0, "executed_flops": 5.0}, {"status": "absent", "seconds": 0.0}]
    run = log_records(None, 3, None, None, 6)
    for log_record in run:
        log_record |= {"down": UP, "clients": clients, "running": 9}
        for scores in log_record.get("evaluation", {}).values():
            scores |= {"correct": [1, 2], "accuracy": 0.5}
    first, last = condensed.condensed(run)
    assert (first["round"], first["client_rounds"], first["device_s"], first["device_flops"]) == (2, 2, 4.0, 10.0)
    assert (last["round"], last["seconds"], last["up"], last["running"]) == (
        5,
        1.5,
        {n: 3 * v for n, v in UP.items()},
        9,
    )
    assert first["evaluation"] == {"global_common": {"examples": 10, "accuracy": 0.5}}
    assert last["evaluation"]["global_common"]["correct"] == [1, 2]
    assert fedspa.payload([first, last]) == fedspa.payload(run)


def test_a_kept_run_is_read_and_one_of_other_settings_refused(tmp_path: Path) -> None:
    found = condensed.kept(one("run"), tmp_path, lambda: runs.metrics(one("run"), tmp_path / "whole", None))
    assert [log_record["round"] for log_record in found] == [1, 2, 3, 4]
    assert condensed.kept(one("run"), tmp_path, lambda: pytest.fail("it is there")) == found
    with pytest.raises(RunError, match=r"run\.json is a run with other settings"):
        condensed.kept(one("run", seed=2), tmp_path, list)


def test_fedspu_s_measures_by_hand() -> None:
    def log_record(round: int, running: int, up: int, correct: list[int]) -> dict[str, Any]:
        scores = {"accuracy": 0.5, "correct": correct, "examples": [10] * 20}
        return {
            "round": round,
            "running": running,
            "down": {},
            "up": {"values": up},
            "evaluation": {"personal": scores},
        }

    hits = [9] * 18 + [1, 4]
    whole, less = (
        [log_record(50, 20, 600, hits), log_record(100, 20, 400, hits)],
        [log_record(50, 9, 500, hits), log_record(75, 0, 100, hits)],
    )
    assert fedspu.worst_tenth(whole) == Found(25.0)
    assert fedspu._saved(less, whole) == Found(pytest.approx(40.0), "0 clients still run")
    assert (fedspu._few_run(less), fedspu._few_run(whole)) == (Found(50.0), Found(None))


def test_fedspu_s_quick_tables_are_kept_in_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fedspu", "--quick", "--tables", "fedspu-0.1", "--json", "--dir"]
    assert command.main([*arguments, str(tmp_path / "one")]) == 0
    results = tmp_path / "one" / "quick"
    assert command.main([*arguments, str(tmp_path / "two"), "--results", str(results)]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert not (tmp_path / "two" / "quick").exists()  # nothing was run again
    assert (first["results"], first["curves"]) == (second["results"], second["curves"])
    assert all(run["rounds"] == 4 for run in first["runs"].values())


def test_fedspu_s_whole_runs_have_the_paper_s_settings() -> None:
    for table in fedspu.tables(quick=False):
        for run in table.runs():
            experiment = run.experiment
            assert (experiment.clients, experiment.per_round, experiment.rounds) == (100, 10, 500)
            assert (experiment.lr, experiment.batch, experiment.epochs, experiment.seed) == (2e-4, 16, 5, 1)
            assert experiment.pool
            (method,) = experiment.algorithms().values()
            assert getattr(method, "es_set", "carve") == ("test" if "test" in run.name else "carve")
    assert len({run.name for table in fedspu.tables(quick=False) for run in table.runs()}) == 10


def test_letters_are_partitioned_and_tested_alike(tmp_path: Path) -> None:
    """The file has 40 images a class, digits among them, and upper and lower case have one label."""
    y = np.repeat(np.arange(62), 40)
    x = np.zeros((len(y), 28, 28), np.uint8)
    np.savez(tmp_path / letters.FILE, x_train=x, y_train=y, x_test=x, y_test=y)
    experiment = replace(fedspa.declared("DST", "dirichlet:0.5").experiment, clients=10)
    found = letters.federation(experiment, tmp_path)
    assert len(found.data) == 2 * 52 * 40 and found.data.y.max() == 25
    for split in found.clients:
        assert len(split.test) == 100 and split.test.min() >= 52 * 40
        assert (len(split.train), len(split.validation)) == (188, 20)
        mine = np.bincount(found.data.y[np.concatenate([split.train, split.validation])], minlength=26)
        tested = np.bincount(found.data.y[split.test], minlength=26)
        assert abs(tested - mine * 100 / 208).max() < 1


def test_omniglot_s_clients_are_alphabets(tmp_path: Path) -> None:
    """The file has 4 drawings of each character, 3 of them for training. Characters differ between the two parts."""
    names = {"x": np.zeros((16, 28, 28), np.uint8), "y": np.repeat([0, 1, 2, 3], 4), "alphabet": np.repeat([0, 1], 8)}
    np.savez(
        tmp_path / omniglot.FILE, **{f"{name}_{part}": v for part in ("train", "test") for name, v in names.items()}
    )
    run = pflego._omniglot_run("pflego").experiment
    found = omniglot.federation(replace(run, clients=4, per_round=1), tmp_path)
    assert [sorted(set(found.data.y[client.train].tolist())) for client in found.clients] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]
    assert [(len(client.train), len(client.test)) for client in found.clients] == [(6, 2)] * 4
    assert not any(set(client.train) & set(client.test) for client in found.clients)

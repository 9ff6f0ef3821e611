"""Options chosen on validation data: never by test labels, once for all seeds, and again after a break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.cli import cli
from edgefl.errors import RunError
from edgefl.experiment import tuned_values
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.learning import Samples
from edgefl.study import tuning
from edgefl.study.simulation.engine import Threads
from edgefl.study.simulation.journal import read_metrics
from edgefl.system.durable_files import with_digest

TUNE: tuned_values.Grid = (("lr", (0.0001, 0.1)),)
SMALL = Experiment(
    methods=("fedavg", "local", "pflego"), model="pflego_mlp", clients=6, per_round=3, rounds=2, epochs=1, tune=TUNE
)


def tune(run: Path, experiment: Experiment, federation: Federation) -> dict[str, Any]:
    """The record of a tuned run."""

    def nothing(*told: object) -> None: ...

    found = tuning.tune(experiment, federation, experiment.settings(1), run, nothing, nothing, Threads)
    assert found == replace(experiment, tuned=tuned_values.choices(run))
    record = tuned_values.read(run)
    assert record is not None
    return record


def mislabelled(federation: Federation) -> Federation:
    """Return the federation with other labels and blank pictures in all test samples."""
    data, tests = federation.data, np.concatenate([split.test for split in federation.clients])
    x, y = data.x.copy(), data.y.copy()
    x[tests], y[tests] = 0, (y[tests] + 1) % 10
    return replace(federation, data=Samples(x, y, data.scale, data.shift, data.loss))


def test_test_samples_have_no_influence(tmp_path: Path) -> None:
    federation = assemble(SMALL)
    found = tune(tmp_path / "right", SMALL, federation)
    assert tune(tmp_path / "wrong", SMALL, mislabelled(federation)) == found
    held_out = tuning.on_validation(federation)
    for split, before in zip(held_out.clients, federation.clients, strict=True):
        parts = [split.train, split.validation, split.test]
        assert not np.isin(before.test, np.concatenate(parts)).any()
        assert split.test is split.validation and np.array_equal(split.validation, before.validation)
        assert np.array_equal(split.train, before.train)
    assert held_out.common is None


def test_every_method_gets_the_best_of_its_values(tmp_path: Path) -> None:
    found = tune(tmp_path, SMALL, assemble(SMALL))
    assert (found["seed"], found["rounds"], list(found["methods"])) == (1, 2, ["fedavg", "local", "pflego"])
    for method in ("fedavg", "local"):
        slow, fast = found["methods"][method]["reached"]
        assert (slow["values"], fast["values"]) == ({"lr": 0.0001}, {"lr": 0.1})
        assert fast["accuracy"] > slow["accuracy"] and found["methods"][method]["chosen"] == {"lr": 0.1}
        evaluation = list(read_metrics(tmp_path / f"tuning/{method}+lr=0.1"))[-1]["evaluation"]
        kind = "global_local" if method == "fedavg" else "personal"
        assert evaluation[kind]["accuracy"] == fast["accuracy"]
        assert evaluation[kind]["examples"] == [len(split.validation) for split in assemble(SMALL).clients]
    assert found["methods"]["pflego"] == {"chosen": {}, "reached": []}
    assert replace(SMALL, tuned=tuned_values.choices(tmp_path)).algorithms()["local"].lr == 0.1  # type: ignore[attr-defined]
    said = tuning.words(tmp_path)
    assert said[0].startswith("fedavg: lr=0.1, chosen on validation samples of seed 1 after 2 rounds (lr=0.0001: ")
    assert said[2] == "pflego: not tuned."


def test_a_grid_has_every_combination_of_what_a_label_leaves_open() -> None:
    grid: tuned_values.Grid = (("batch", (8, 16)), ("lr", (0.1, 0.2)), ("beta", (0.3,)))
    both = [{"batch": batch, "lr": lr} for batch in (8, 16) for lr in (0.1, 0.2)]
    assert tuned_values.combinations(grid, "fedavg") == both
    assert tuned_values.combinations(grid, "fedavg:lr=.5") == [{"batch": 8}, {"batch": 16}]
    assert tuned_values.combinations(grid, "pflego") == [{"beta": 0.3}]


def test_a_value_with_which_it_diverges_loses_and_all_of_them_are_an_error(tmp_path: Path) -> None:
    wild = replace(SMALL, methods=("fedavg",), tune=(("lr", (1e30, 0.001)),))
    found = tune(tmp_path / "one", wild, assemble(wild))["methods"]["fedavg"]
    wildest, tame = found["reached"]
    assert (wildest["values"], wildest["loss"], tame["diverged"]) == ({"lr": 1e30}, None, 0)
    assert wildest["diverged"] >= 3 and found["chosen"] == {"lr": 0.001}
    assert "lr=1e+30: diverged" in tuning.words(tmp_path / "one")[0]
    with pytest.raises(
        RunError, match=r"tuning fedavg: with lr=1e\+30 training diverges; expected at least one value with which"
    ):
        tune(tmp_path / "all", replace(wild, tune=(("lr", (1e30,)),)), assemble(wild))
    assert tuned_values.read(tmp_path / "all") is None


ASKED = [
    *["simulate", "--clients", "6", "--rounds", "2", "--per-round", "3", "--epochs", "1", "--eval-every", "1"],
    *["--method", "fedspu,fedavg", "--tune", "lr=.0001,.1", "--seeds", "2", "--run-dir", "run", "--json"],
]


def output(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(arguments) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_tuned_run_has_its_choice_in_all_seeds_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = output(ASKED, capsys)
    assert found["experiment"]["tune"] == [["lr", [0.0001, 0.1]]] and "tuned" not in found["experiment"]
    for method, each in found["tuning"]["methods"].items():
        assert each["chosen"] == {"lr": 0.1}
        plain = ["--method", f"{method}:lr=.1", "--seeds", "2", "--run-dir", f"plain-{method}", "--json"]
        alone = output([*ASKED[:11], *plain], capsys)
        for seed in ("1", "2"):
            expected = alone["seeds"][seed]["methods"][f"{method}:lr=0.1"]
            got = found["seeds"][seed]["methods"][method]
            assert (got["evaluation"], got["accuracy"]) == (expected["evaluation"], expected["accuracy"])
    record = Path("run/tuned.json").read_bytes()
    assert output(["simulate", "--resume", "run", "--json"], capsys) == found
    Path("run/tuned.json").unlink()  # as if it had been killed before: the trials are there
    assert output(["simulate", "--resume", "run", "--json"], capsys) == found
    assert Path("run/tuned.json").read_bytes() == record
    Path("run/tuned.json").write_text(json.dumps(with_digest({"methods": {"fedavg": 3}})))
    assert cli.main(["simulate", "--resume", "run"]) == 2
    assert "tuned.json is not a record of tuned values" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tune", "lr"], "--tune lr; expected NAME=VALUE,VALUE"),
        (["--tune", "mu=1,2"], "mu=1 is not a hyper-parameter of fedspu"),
        (["--tune", "lr=.1,x"], "lr=x; expected a number"),
        (["--tune", "lr=.1,.1"], "tune lr=(0.1, 0.1); expected at least one value, and each value once"),
        (["--tune", "lr=.1,-1"], "lr=-1.0; expected a finite lr > 0"),
        (["--tune", "keep=.1,.2"], "--tune keep=.1,.2; expected an option of a method that is one number or word"),
        (["--tune", "lr=.1,.2", "--validation-share", "0"], "client 0 has 0 validation samples"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_spent(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["simulate", "--method", "fedspu,local", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_server_does_not_tune() -> None:
    with pytest.raises(ValueError, match="tune=lr with a server; expected a simulation"):
        replace(SMALL, methods=("fedavg",)).check_served()

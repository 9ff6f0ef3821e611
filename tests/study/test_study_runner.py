"""An experiment of several seeds is as many experiments of one, bit for bit: killed, resumed, and with more rounds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli import cli
from edgefl.errors import RunError
from edgefl.experiment.run_layout import Trial, run_of, trials
from edgefl.experiment.settings import Experiment
from edgefl.study import runner
from edgefl.study.export.trained_models import ModelSource, find

SMALL = Experiment(
    methods=("fedspu", "local"), clients=4, rounds=2, per_round=2, epochs=1, eval_every=1, checkpoint_every=1, seeds=2
)
OPTIONS = ["--clients", "4", "--rounds", "2", "--per-round", "2", "--epochs", "1", "--method", "fedavg"]


def content(path: Path) -> dict[str, Any]:
    """Return every file below a trial's directory by name: bytes, or the lines of metrics without times."""
    found: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        if file.name == "metrics.jsonl":
            found[file.name] = json.loads(f"[{','.join(file.read_text().splitlines())}]", object_hook=without_seconds)
        elif file.is_file() and file.name != "commit.json":
            found[str(file.relative_to(path))] = file.read_bytes()
    return found


def without_seconds(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "seconds"}


def run(experiment: Experiment, path: Path, watcher: Any = None) -> list[runner.CompletedTrial]:
    prepared = runner.prepare(experiment)
    runner.claim(prepared, path)
    return runner.run(prepared, path, watcher)


class Noted:
    """A watcher that keeps what it is told, and breaks off after so many lines."""

    def __init__(self, most: int = 1000) -> None:
        self.begun: list[tuple[str, int]] = []
        self.log_records, self.ends, self._most = 0, 0, most

    def begin(self, trial: Trial, at: int) -> None:
        self.begun.append((str(trial), at))

    def log_record(self, log_record: dict[str, Any]) -> None:
        self.log_records += 1
        if self.log_records == self._most:
            raise KeyboardInterrupt

    def end(self) -> None:
        self.ends += 1


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("both") / "run"
    run(SMALL, path)
    return path


@pytest.mark.parametrize("seed", [1, 2])
def test_every_seed_of_several_is_the_run_of_that_seed_alone(seed: int, both: Path, tmp_path: Path) -> None:
    run(replace(SMALL, seed=seed, seeds=1), tmp_path / "alone")
    for method in SMALL.methods:
        assert content(both / f"seed-{seed}" / method) == content(tmp_path / "alone" / method)
    assert content(both / "seed-1" / "fedspu") != content(both / "seed-2" / "fedspu")
    assert json.loads((both / "run.json").read_text())["seeds"] == 2
    assert "seeds" not in json.loads((tmp_path / "alone" / "run.json").read_text())


def test_a_run_that_is_broken_off_in_its_second_seed_goes_on_there(both: Path, tmp_path: Path) -> None:
    first, second = Noted(most=6), Noted()
    with pytest.raises(KeyboardInterrupt):
        run(SMALL, tmp_path / "run", first)
    run(SMALL, tmp_path / "run", second)
    assert first.begun == [("fedspu seed 1", 0), ("local seed 1", 0), ("fedspu seed 2", 0)]
    assert second.begun == [("fedspu seed 1", 2), ("local seed 1", 2), ("fedspu seed 2", 2), ("local seed 2", 0)]
    assert (first.log_records, second.log_records, first.ends, second.ends) == (6, 2, 1, 1)
    for each in trials(SMALL, both):
        assert content(each.path) == content(tmp_path / "run" / each.path.relative_to(both))


def test_more_rounds_are_those_of_a_run_that_had_them_from_the_beginning(both: Path, tmp_path: Path) -> None:
    run(replace(SMALL, rounds=1), tmp_path / "run")
    again = Noted()
    run(SMALL, tmp_path / "run", again)
    assert [at for _, at in again.begun] == [1, 1, 1, 1] and again.log_records == 4
    for each in trials(SMALL, both):
        assert content(each.path) == content(tmp_path / "run" / each.path.relative_to(both))
    assert Experiment.of_run(tmp_path / "run") == SMALL


def test_a_method_that_has_ended_by_itself_stays_ended(tmp_path: Path) -> None:
    """Early stopping at the first loss that does not fall: all clients have stopped long before round 60."""
    ended = Experiment(
        methods=("fedspu-es",),
        clients=2,
        per_round=2,
        epochs=1,
        rounds=60,
        keep=(1.0,),
        options=(("lam", 0.0),),
        lr=5.0,
        eval_every=10,
    )
    run(ended, tmp_path / "run")
    before, noted = content(tmp_path / "run" / "fedspu-es"), Noted()
    assert len(before["metrics.jsonl"]) < 60
    run(replace(ended, rounds=70), tmp_path / "run", noted)
    assert noted.log_records == 0 and content(tmp_path / "run" / "fedspu-es") == before


@pytest.mark.parametrize(
    ("began", "asked", "message"),
    [
        (SMALL, replace(SMALL, rounds=1), "was run with rounds=2, not 1; expected at least 2"),
        (SMALL, replace(SMALL, rounds=3, lr=0.1), r"was run with lr=0.05; expected 0.1"),
        (replace(SMALL, seeds=1), SMALL, "was run with seeds=1, not 2; expected seeds=1, or a new run"),
        (
            replace(SMALL, options=(("schedule", "cosine"),)),
            replace(SMALL, options=(("schedule", "cosine"),), rounds=3),
            "was run with rounds=2, not 3, and what fedspu does in a round depends on the number of rounds; expected",
        ),
        (
            replace(SMALL, methods=("local", "fedspa")),
            replace(SMALL, methods=("local", "fedspa"), rounds=3),
            "and what fedspa does in a round depends on",
        ),
    ],
)
def test_what_cannot_grow_is_refused_and_nothing_changes(
    began: Experiment, asked: Experiment, message: str, tmp_path: Path
) -> None:
    runner.claim(runner.prepare(began), tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(RunError, match=message):
        runner.claim(runner.prepare(asked), tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_the_command_runs_seeds_and_goes_on_with_more_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["simulate", *OPTIONS, "--seeds", "2", "--run-dir", "run", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert cli.main(["simulate", "--resume", "run", "--rounds", "3", "--seeds", "3", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert (list(first["seeds"]), list(more["seeds"])) == (["1", "2"], ["1", "2", "3"])
    assert [more["seeds"][seed]["methods"]["fedavg"]["rounds"] for seed in more["seeds"]] == [3, 3, 3]
    assert cli.main(["simulate", "--resume", "run", "--rounds", "2"]) == 2
    assert "run was run with rounds=3, not 2; expected at least 3" in capsys.readouterr().err
    assert cli.main(["serve", "--resume", "run", "--rounds", "9"]) == 2
    assert "run was run with rounds=3, not 9; expected the same settings" in capsys.readouterr().err


def test_a_model_is_taken_out_of_the_seed_that_is_asked_for(both: Path) -> None:
    models = [
        find(ModelSource(both, None, "fedspu", seed=1)).model,
        find(ModelSource(both, None, "fedspu")).model,
        find(ModelSource(both / "seed-1" / "fedspu")).model,
        find(ModelSource(both / "seed-2" / "fedspu")).model,
    ]
    weights = [model.params["conv1.weight"].tobytes() for model in models]
    assert weights[0] == weights[1] == weights[2] != weights[3]
    with pytest.raises(RunError, match=r"--seed 3; expected one of 1, 2, which .* has"):
        find(ModelSource(both, None, "fedspu", seed=3))
    assert run_of(Path("run/fedspu")) == (Path("run"), None)
    assert run_of(Path("run/seed-12/fedspu")) == (Path("run"), 12)
    assert run_of(Path("7/fedspu")) == (Path("7"), None)

"""run.toml: every run writes the file that repeats it, bit for bit. A file that a person writes is read with care."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl import rng
from edgefl.cli import cli
from edgefl.errors import RunError
from edgefl.experiment.array_data import KEPT
from edgefl.experiment.run_toml import text_of
from edgefl.experiment.settings import Experiment
from edgefl.models.graph import Model, architectures, model_files

pytest.importorskip("tomllib", reason="Python 3.10 reads TOML by a package")
SHORT = ["--clients", "4", "--rounds", "2", "--per-round", "2", "--epochs", "1", "--eval-every", "1"]


def results(run: Path) -> dict[str, bytes]:
    """Return every array that a run ends with, and what is kept beside its settings."""
    found = {str(file.relative_to(run)): file.read_bytes() for file in run.rglob("*.safetensors")}
    return found | {file.name: file.read_bytes() for file in run.glob("run.toml")}


def repeated(run: Path, to: Path) -> None:
    assert cli.main(["simulate", str(run / "run.toml"), "--run-dir", str(to)]) == 0
    assert results(to) == results(run) and len(results(run)) > 1
    assert json.loads((to / "run.json").read_text()) == json.loads((run / "run.json").read_text())


def test_a_run_of_the_command_is_repeated_by_its_file(tmp_path: Path) -> None:
    options = ["--method", "fedspu:keep=.5,1,local", "--lr", "1e-2", "--set", "betas=.8,.9", "--optimizer", "adam"]
    run = ["simulate", *SHORT, *options, "--seeds", "2", "--loss", "cross-entropy:weight=1,2,1,1,1,1,1,1,1,1"]
    assert cli.main([*run, "--run-dir", str(tmp_path / "run")]) == 0
    repeated(tmp_path / "run", tmp_path / "again")


def test_a_run_of_arrays_and_a_model_is_repeated_by_its_directory_wherever_that_lies(tmp_path: Path) -> None:
    random_stream = np.random.default_rng(1)
    data = random_stream.random((60, 1, 8, 8)), random_stream.integers(0, 3, 60), random_stream.integers(0, 4, 60)
    graph = architectures.build("digits_cnn", (1, 8, 8), 3)
    model = Model(graph, graph.init(rng.stream(5, rng.INIT)))
    run = edgefl.simulate("fedspu", model=model, data=data, rounds=2, epochs=1, directory=tmp_path / "run")
    shutil.move(run.directory, tmp_path / "moved")
    repeated(tmp_path / "moved", tmp_path / "again")
    assert KEPT.fullmatch(Experiment.of_run(tmp_path / "again").data)
    assert edgefl.open_run(tmp_path / "again").clients[1].model.predict(data[0]).shape == (60, 3)


def test_a_tuned_run_is_repeated_and_goes_on_if_its_trials_do_not_depend_on_the_rounds(tmp_path: Path) -> None:
    tuned = {"tune": {"lr": (0.01, 0.1)}, "clients": 4, "per_round": 4, "epochs": 1, "progress": False}
    run = edgefl.simulate("fedavg,local", rounds=2, tune_rounds=1, directory=tmp_path / "run", **tuned)
    assert {dict(chosen)["lr"] for _, chosen in run.experiment.tuned} <= {0.01, 0.1}
    assert "[tune]\nlr = [0.01, 0.1]\n" in (run.directory / "run.toml").read_text()
    repeated(run.directory, tmp_path / "again")
    more = edgefl.simulate("fedavg,local", rounds=3, tune_rounds=1, directory=tmp_path / "run", **tuned)
    assert more.experiment.tuned == run.experiment.tuned and more.metrics[-1]["round"] == 3
    edgefl.simulate("fedavg", rounds=1, directory=tmp_path / "other", **tuned)
    with pytest.raises(RunError, match="was tuned over rounds=1, not 2"):
        edgefl.simulate("fedavg", rounds=2, directory=tmp_path / "other", **tuned)
    with pytest.raises(ValueError, match="tune rat; expected one of batch"):
        edgefl.simulate("fedavg", tune={"rat": (1, 2)})


def test_a_file_of_data_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found by its path from the TOML's folder. A run's own file says where it was."""
    home = tmp_path / "home"
    home.mkdir()
    np.savez(home / "mine.npz", x=np.random.default_rng(1).random((80, 1, 8, 8)), y=np.arange(80) % 2)
    (home / "first.toml").write_text('method = "fedavg"\ndata = "mine.npz"\nclients = 2\nper_round = 2\nrounds = 1\n')
    assert cli.main(["simulate", str(home / "first.toml"), "--run-dir", str(tmp_path / "run")]) == 0
    assert f'data = "{home / "mine.npz"}"' in (tmp_path / "run" / "run.toml").read_text()
    monkeypatch.chdir(home)
    assert cli.main(["simulate", str(tmp_path / "run" / "run.toml"), "--run-dir", "again"]) == 0
    assert results(home / "again") == results(tmp_path / "run")
    graph = architectures.build("digits_cnn", (1, 8, 8), 2)
    model_files.save(home / "mine.safetensors", Model(graph, graph.init(rng.stream(5, rng.INIT))))
    monkeypatch.chdir(tmp_path)
    (home / "second.toml").write_text((home / "first.toml").read_text() + 'model = "mine.safetensors"\n')
    assert cli.main(["simulate", str(home / "second.toml"), "--run-dir", "other"]) == 0
    assert (tmp_path / "other" / "model.safetensors").exists()


def test_options_beside_a_file_go_before_it(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    text = 'methods = ["fedavg", "local"]\nclients = 4\nper_round = 2\nrounds = 9\nkeep = [1]\nlr = 1\n'
    file.write_text(text + "[options]\nmomentum = 0.5\nnesterov = true\nbetas = [0.8, 0.9]\noptimizer = 'sgd'\n")
    options = ["--method", "fedspu", "--rounds", "1", "--set", "momentum=0.25", "--set", "nesterov=false"]
    run = [
        "simulate",
        str(file),
        *options,
        "--optimizer",
        "adam",
        "--set",
        "momentum=0",
        "--run-dir",
        str(tmp_path / "run"),
    ]
    assert cli.main(run) == 0
    found = Experiment.of_run(tmp_path / "run")
    assert (found.methods, found.rounds, found.clients, found.keep, found.lr) == (("fedspu",), 1, 4, (1.0,), 1.0)
    expected = {"momentum": 0.0, "nesterov": False, "betas": (0.8, 0.9), "optimizer": "adam"}
    assert dict(found.options) == expected


def test_more_rounds_are_in_the_file_too(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert cli.main(["simulate", *SHORT, "--method", "fedavg", "--run-dir", str(run)]) == 0
    assert cli.main(["simulate", "--resume", str(run), "--rounds", "3"]) == 0
    repeated(run, tmp_path / "again")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("round = 3", "my.toml: round is not a setting; the nearest are rounds"),
        ("rounds = 3.5", "my.toml: rounds=3.5; expected a whole number, as 30"),
        ("keep = 0.5", "my.toml: keep=0.5; expected a list"),
        ("method = 3", "my.toml: method=3; expected text"),
        ("options = 3", "my.toml: options=3; expected a table, [options]"),
        ("rounds =", "my.toml cannot be read (Invalid value"),
        ("[options]\nmu = 1", "mu=1 is not a hyper-parameter of"),
        ("methods = ['fedfoo']", "method=fedfoo; expected one of"),
    ],
)
def test_a_wrong_file_ends_in_one_sentence(text: str, message: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "my.toml").write_text(text + "\n")
    assert cli.main(["simulate", str(tmp_path / "my.toml"), "--run-dir", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert cli.main(["simulate", str(tmp_path / "gone.toml")]) == 2


def test_text_survives() -> None:
    import tomllib

    odd = Experiment(data='a "quoted" \\ name\n\x01 ü', options=(("clip", 1e-300), ("saved", "fp16")))
    found = tomllib.loads(text_of(odd))
    assert (found["data"], found["options"]) == (odd.data, dict(odd.options))
    assert "max_examples" not in found and "seeds" not in found

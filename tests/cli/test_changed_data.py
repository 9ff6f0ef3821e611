"""`simulate --resume` and `serve --resume` with data that have changed, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import RunError
from edgefl.experiment.run_json import EXPERIMENT, MADE_BY, TRAINED_ON
from edgefl.system.durable_files import read_json, with_digest

SMALL = ["--clients", "2", "--per-round", "2", "--partition", "iid", "--method", "fedavg", "--epochs", "1"]


def write(path: Path, seed: int, samples: int = 60) -> Path:
    rng = np.random.default_rng(seed)
    x, y = rng.random((samples, 4), np.float32), rng.integers(0, 3, samples).astype(np.int32)
    y[:3] = 0, 1, 2
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    """A run of two rounds on my.npz."""
    data = write(tmp_path / "my.npz", 0)
    run = tmp_path / "run"
    assert main(["simulate", "--data", str(data), *SMALL, "--rounds", "2", "--run-dir", str(run)]) == 0
    return run


CHANGES: list[tuple[int, int, str]] = [
    (1, 60, "60 samples of shape [4] with SHA-256"),
    (0, 63, "60 samples of shape [4] before, 63 samples of shape [4] now"),
]


@pytest.mark.parametrize(("seed", "samples", "words"), CHANGES)
def test_a_simulation_refuses_changed_data_or_takes_them_on_demand(
    seed: int, samples: int, words: str, simulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "my.npz", seed, samples)
    before = {file: file.read_bytes() for file in simulated.rglob("*") if file.is_file()}
    capsys.readouterr()
    assert main(["simulate", "--resume", str(simulated), "--rounds", "3"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert words in line
    assert "--accept-data" in line
    assert {file: file.read_bytes() for file in simulated.rglob("*") if file.is_file()} == before
    assert main(["simulate", "--resume", str(simulated), "--rounds", "3", "--accept-data"]) == 0
    assert (
        "continues with data other than those that it has trained on, as --accept-data allows"
        in capsys.readouterr().err
    )
    assert len(read_json(simulated / EXPERIMENT)[TRAINED_ON]) == 2


def test_a_program_is_refused_likewise_and_warned(simulated: Path, tmp_path: Path) -> None:
    stored = edgefl.open_run(simulated).experiment
    asked: dict[str, Any] = {"clients": 2, "per_round": 2, "partition": "iid", "epochs": 1, "rounds": 3}
    asked |= {"data": stored.data, "directory": simulated, "progress": False}
    write(tmp_path / "my.npz", 1)
    with pytest.raises(RunError, match="has trained on other data"):
        edgefl.simulate("fedavg", **asked)
    with pytest.warns(UserWarning, match="continues with data other"):
        edgefl.simulate("fedavg", **asked, accept_data=True)


def test_a_run_of_before_goes_on_and_says_so_once(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = read_json(simulated / EXPERIMENT)
    del found[TRAINED_ON]
    (simulated / EXPERIMENT).write_text(json.dumps(with_digest(found)))
    capsys.readouterr()
    for times in (1, 0):
        assert main(["simulate", "--resume", str(simulated)]) == 0
        assert capsys.readouterr().err.count("keeps no SHA-256 of the data") == times
    assert set(read_json(simulated / EXPERIMENT)) >= {TRAINED_ON, MADE_BY}


def test_a_server_refuses_changed_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is interrupted where it would begin to serve, which is after the data are checked."""
    monkeypatch.setattr("edgefl.cli.serve.serve", lambda *_: None)
    data, run = write(tmp_path / "my.npz", 0), tmp_path / "run"
    assert main(["serve", "--data", str(data), *SMALL, "--rounds", "2", "--run-dir", str(run), "--port", "0"]) == 0
    write(data, 1)
    capsys.readouterr()
    assert main(["serve", "--resume", str(run), "--port", "0"]) == 1
    assert "has trained on other data than there are now: 60 samples" in capsys.readouterr().err
    assert main(["serve", "--resume", str(run), "--accept-data", "--port", "0"]) == 0
    assert "as --accept-data allows" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "serve"])
def test_accepting_needs_a_run_that_goes_on(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, *SMALL, "--run-dir", str(tmp_path / "run"), "--accept-data"]) == 2
    assert "--accept-data without --resume" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()

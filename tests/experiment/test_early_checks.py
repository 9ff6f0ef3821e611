"""Experiments that cannot run are refused before round 1 and before there is a run directory. No default is blamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.errors import DataError, RequestError
from edgefl.experiment.data.group_names import group_names
from edgefl.experiment.settings import Experiment
from edgefl.system.durable_files import check_writable, why_unwritable

DRAW = np.random.default_rng(5)
Y = DRAW.integers(0, 3, 160)
X = (DRAW.normal(size=(160, 4)) + 2 * np.eye(3, 4)[Y]).astype(np.float32)
FIVE = np.repeat(np.arange(5), [50, 50, 50, 6, 4])
LARGER = np.repeat(np.arange(5), [50, 50, 40, 12, 8])
SHORT = ["--method", "fedavg", "--rounds", "1", "--epochs", "1", "--workers", "1"]


def saved(folder: Path, **more: Any) -> str:
    np.savez(folder / "made.npz", **{"x": X, "y": Y, **more})
    return str(folder / "made.npz")


REFUSED = [  # what is in the file, options, what is said
    ({"x_test": X[:0], "y_test": Y[:0]}, ["--clients", "4"], "data=made: x_test has 0 samples; expected test samples"),
    ({"x": X[:0], "y": Y[:0]}, ["--clients", "4"], "data=made has 0 samples; expected samples in x and y"),
    ({"x": X[:80], "y": Y[:80]}, [], "clients=100 (the default); expected 1"),
    ({}, ["--clients", "161"], "clients=161; expected 1 <= clients <= 160 examples of data=made: give --clients N"),
    ({"group": FIVE}, ["--clients", "6", "--partition", "group"], "clients=6; expected 1 <= clients <= 5 groups of"),
    ({"group": np.r_[FIVE[:-1], 9]}, [], "group 9, gets 0 training and 1 test samples of 1; expected"),
    ({"y": X[:, 0]}, ["--clients", "4"], "partition=dirichlet:0.1 (the default) with data=made"),
    ({"y": Y[:9]}, [], "made.npz: y is int32 (9,); expected int32 (160,), as x is float32 (160, 4)"),
    ({}, ["--clients", "4", "--plot", "nowhere/a.png"], "--plot nowhere/a.png; expected a file in an existing"),
    ({}, ["--clients", "4", "--plot", "/proc/a.png"], "--plot /proc/a.png cannot be written ("),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "options", "message"), REFUSED)
def test_a_refused_simulation_leaves_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arrays: dict[str, Any], options: list[str], message: str
) -> None:
    run = tmp_path / "run"
    assert main(["simulate", "--data", saved(tmp_path, **arrays), *options, *SHORT, "--run-dir", str(run)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not run.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "m.safetensors", "x.npy", "-o", "/proc/y.npy"], "/proc/y.npy cannot be written"),
        (
            ["predict", "m.safetensors", "x.npy", "-o", "nowhere/y.npy"],
            "nowhere/y.npy lies in a directory that does not",
        ),
        (["export", "run", "nowhere/m.safetensors"], "nowhere/m.safetensors lies in a directory that does not exist"),
        (["simulate", *SHORT, "--run-dir", "/proc/a/b"], "/proc/a/b cannot be made ("),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_first(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_trying_to_write_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("kept")
    check_writable(tmp_path / "a")
    check_writable(tmp_path / "b")
    assert why_unwritable(tmp_path / "a") is None
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a", "kept")]
    with pytest.raises(RequestError, match="is a directory; expected the name of a file"):
        check_writable(tmp_path)


def settings_of(run: Path) -> tuple[str, int]:
    found = json.loads((run / "run.json").read_text())
    return found["partition"], found["clients"]


GROUPED = [  # arrays, options or settings, partition and clients
    ({"group": LARGER}, {}, ("group", 5)),
    ({"speaker": np.array(["a", "b", "c", "d", "e"])[LARGER]}, {}, ("group", 5)),
    ({"group": LARGER}, {"fewest": 10}, ("group", 4)),
    ({"group": LARGER}, {"clients": 3}, ("dirichlet:0.1", 3)),
    ({"group": LARGER}, {"partition": "iid", "clients": 4}, ("iid", 4)),
    ({"group": LARGER}, {"partition": "group", "clients": 3}, ("group", 3)),
    ({"group": LARGER}, {"partition": "group", "clients": "all"}, ("group", 5)),
]


@pytest.mark.parametrize(("arrays", "settings", "expected"), GROUPED)
def test_command_and_python_treat_groups_of_a_file_alike(
    tmp_path: Path, arrays: dict[str, Any], settings: dict[str, Any], expected: tuple[str, int]
) -> None:
    data = saved(tmp_path, **arrays)
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    assert main(["simulate", "--data", data, *SHORT, *options, "--run-dir", str(tmp_path / "command")]) == 0
    assert settings_of(tmp_path / "command") == expected
    more = {"rounds": 1, "epochs": 1, "progress": False, "directory": tmp_path / "python"}
    edgefl.simulate("fedavg", data=data, **settings, **more)
    assert settings_of(tmp_path / "python") == expected


@pytest.mark.parametrize("settings", [{}, {"clients": "all"}, {"clients": 3}, {"clients": 3, "partition": "group"}])
def test_fewest_needs_no_number_of_clients(tmp_path: Path, settings: dict[str, Any]) -> None:
    """The groups have 50, 50, 50, 6 and 4 samples, and three of them have at least 10."""
    more = {"rounds": 1, "epochs": 1, "progress": False, "directory": tmp_path / "run", "fewest": 10}
    run = edgefl.simulate("fedavg", data=(X, Y, FIVE), **settings, **more)
    assert (run.experiment.partition, run.experiment.clients) == ("group", 3)


def test_fewest_of_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data: fewest=51, the largest group has 50 samples; expected fewest <= 50"):
        edgefl.simulate("fedavg", data=(X, Y, FIVE), fewest=51, directory=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "x,group,y\n", ("group",)),
        ("a.tsv", "x\tspeaker\ty\n", ("speaker",)),
        ("a.csv", "x;group;y\n", ("group",)),
        ("a.csv", "\ufeffgroup,y\n", ("group",)),
        ("a.csv", "x,y\n", ()),
        ("a.csv", "", ()),
        ("a.npz", "no archive", ()),
        ("a.txt", "group\n", ()),
    ],
)
def test_names_of_groups_are_found_without_reading_samples(
    tmp_path: Path, name: str, content: str, expected: tuple[str, ...]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert group_names(tmp_path / name) == expected
    assert group_names(tmp_path / "nothing.csv") == ()


def test_an_old_run_of_a_file_with_groups_goes_on(tmp_path: Path) -> None:
    """It was dealt otherwise before groups counted. A resumed run is not asked again."""
    data = saved(tmp_path, group=FIVE)
    run = tmp_path / "run"
    started = ["--partition", "dirichlet:0.1", "--clients", "4", "--run-dir", str(run)]
    assert main(["simulate", "--data", data, *SHORT, *started]) == 0
    assert main(["simulate", "--resume", str(run), "--data", data, "--rounds", "2", "--workers", "1"]) == 0
    assert Experiment.of_run(run).rounds == 2

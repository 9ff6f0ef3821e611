"""`edgefl check`: the page about somebody's data, its exit code, and what is to be minded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.cli.cli import main

Y = np.arange(80) % 4
X = (np.eye(4)[Y] + np.arange(80)[:, None] / 100).astype(np.float32)


def page(
    capsys: pytest.CaptureFixture[str], folder: Path, *options: str, code: int = 0, **arrays: Any
) -> dict[str, Any]:
    np.savez(folder / "made.npz", **{"x": X, "y": Y, **arrays})
    assert main(["check", str(folder / "made.npz"), "--json", *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_page_has_shapes_classes_groups_units_and_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = np.repeat([0, 1], 40)
    found = page(capsys, tmp_path, "--method", "fedavg", "--batch", "7", "--epochs", "2", y=Y + 1, group=group)
    assert (found["shape"], found["kind"], found["test"]) == ([80, 4], "float32", 0)
    assert found["classes"] == [["1", 20], ["2", 20], ["3", 20], ["4", 20]]
    assert found["groups"] == [["0", 40], ["1", 40]]
    assert found["notes"] == ["y: 4 classes, labels 1..4"]
    assert [column["name"] for column in found["columns"]] == ["0", "1", "2", "3"]
    training = found["training"]
    assert (training["model"], training["outputs"], training["loss"]) == ("mlp", 4, "cross-entropy")
    assert (training["partition"], training["clients"], training["train"]) == ("group", 2, [26, 26])
    assert training["steps"] == 2 * 4  # of 26 samples, in batches of 7
    assert training["parameters"] == 4 * 4 + (4 * 64 + 64) + (64 * 64 + 64) + (64 * 4 + 4) + 2 * 4 * 64 - 2 * 4 * 64
    assert training["step_seconds"] > 0
    assert found["round_seconds"] > 0
    assert found["warnings"] == []


def test_the_page_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "made.npz", x=X, y=Y)
    assert main(["check", str(tmp_path / "made.npz"), "--clients", "4", "--partition", "iid"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "made: 80 samples of 4 float32, from 0 to 1.79"
    assert lines[2] == "  y: 4 classes, labels 0..3"
    assert lines[3] == "classes: 0 (20), 1 (20), 2 (20), 3 (20)"
    assert lines[4] == "columns: 4"
    assert len(lines) <= 50
    assert lines[-1] == "nothing to mind"
    assert list(tmp_path.iterdir()) == [tmp_path / "made.npz"]


def test_a_column_with_one_value_in_each_client_is_to_be_minded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch norm sees no spread in it, and a model of all clients goes wrong: 48 % for 98 % on such a table."""
    rows = [f"{'north' if who < 2 else 'south'},{at % 7},{who},{'ab'[at % 2]}" for who in range(4) for at in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["plant,size,who,what", *rows]))
    asked = ["--label", "what", "--group", "who", "--rounds", "1", "--method", "fedavg"]
    said = "plant=north, plant=south: one value within each client"
    assert main(["check", str(tmp_path / "t.csv"), *asked]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"mind: {said}")
    assert last.endswith("; --drop plant")
    given = ["--data", str(tmp_path / "t.csv"), *asked]
    assert main(["simulate", *given, "--run-dir", str(tmp_path / "run")]) == 0
    assert said in capsys.readouterr().err
    assert main(["simulate", *given, "--run-dir", str(tmp_path / "again"), "--drop", "plant"]) == 0
    assert said not in capsys.readouterr().err


FOUR = ("--clients", "4", "--partition", "iid", "--method", "fedavg")
MINDED = [  # arrays, options, what is said, its remedy, whether it is a refusal
    ({"x": X * np.float32([1, 1, 1e9, 1])}, FOUR, "column 2 of x has spread", "give --standardise", True),
    ({"y": 2e5 + 1e5 * X[:, 0]}, FOUR, "y has spread", "give --standardise", True),
    ({"x": X[:30], "y": Y[:30]}, (), "clients=100 (the default", "give --clients N", True),
    ({"x": X * np.float32([1, 0, 1, 1])}, FOUR, "column 1 is 0 in every sample", "--drop 1", False),
    ({"x": X + np.float32([0, 0, 0, 1e6])}, FOUR, "column 3 is about 1e+06 and differs by", "subtract 1e+06", False),
    ({"x": np.r_[X[:-1], 99 + X[:1]]}, FOUR, "column 0 has 1 values over 8 spreads", "check these values", False),
    ({"y": Y * 0}, FOUR, "all samples have one class", "add samples of other classes", False),
    ({"y": (Y == 3) * (np.arange(80) < 20) * 1}, FOUR, "93.8 % of the samples have class 0", "weighs the rare", False),
    ({"y": np.r_[np.zeros(77, int), 1, 2, 2]}, FOUR, "2 classes have fewer than 5 samples: 1 (1)", "join", False),
    ({"group": np.repeat([0, 1, 2], [40, 34, 6])}, FOUR[4:], "1 groups have fewer than 10", "--fewest 10", False),
    ({"group": np.repeat([0, 1], 40)}, FOUR, "the data say whom samples come from", "--partition group", False),
    ({"group": np.r_[np.zeros(40, int), np.ones(38, int), -1, -1]}, FOUR[4:], "2 samples belong to no", "", False),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "options", "what", "remedy", "is_refusal"), MINDED)
def test_what_is_to_be_minded_comes_with_a_remedy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, Any],
    options: tuple[str, ...],
    what: str,
    remedy: str,
    is_refusal: bool,
) -> None:
    found = page(capsys, tmp_path, *options, code=int(is_refusal), **arrays)
    (warning,) = (each for each in found["warnings"] if what in each["what"])
    assert remedy in warning["remedy"]
    assert warning["is_refusal"] is is_refusal


def test_data_that_cannot_be_read_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("a,y\n1,0\n,1\n")
    assert main(["check", str(tmp_path / "a.csv")]) == 2
    assert "line 3 has '' in column a; expected no empty cell" in capsys.readouterr().err

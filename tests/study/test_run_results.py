"""The tables of a real run in every format, what it says of tuned values, and what a notebook shows."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

import edgefl
from edgefl.cli.cli import main

SETTINGS = {"rounds": 2, "epochs": 1, "clients": 4, "per_round": 2, "eval_every": 1, "seeds": 2, "workers": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> edgefl.Run:
    folder = tmp_path_factory.mktemp("results") / "run"
    tune = {"lr": (0.01, 0.1)}
    return edgefl.simulate("fedspu,fedavg", directory=folder, progress=False, tune=tune, tune_rounds=1, **SETTINGS)


def test_the_table_says_what_was_tuned_and_what_lies_at_an_edge(run: edgefl.Run) -> None:
    text = run.table()
    assert "fedspu: lr=0.1, chosen on validation samples of seed 1 after 1 rounds (lr=0.01: " in text
    edges = run.to_json()["tuning"]["edges"]
    assert [(edge["method"], edge["option"], edge["value"]) for edge in edges] == [
        (method, "lr", run.tuned[method]["lr"]) for method in ("fedspu", "fedavg")
    ]
    for edge in edges:
        assert f"{edge['method']}: lr={edge['value']:g} is the {edge['side']} of the values tried (0.01, 0.1)" in text


@pytest.mark.parametrize("format", ["text", "markdown", "latex", "csv", "html"])
def test_every_format_has_every_method_and_no_colour(
    run: edgefl.Run, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = run.table(format=format)
    assert "fedspu" in text and "fedavg" in text and "\x1b" not in text


def test_csv_has_the_numbers_of_the_json(run: edgefl.Run) -> None:
    rows = list(csv.DictReader(StringIO(run.table(format="csv"))))
    expected = run.to_json()["comparison"]["methods"]
    assert {row["method"]: float(row["accuracy"]) for row in rows} == {
        name: each["score"]["mean"] for name, each in expected.items()
    }


def test_a_notebook_shows_html(run: edgefl.Run) -> None:
    assert run._repr_html_().startswith("<div>\n<table><caption>Mean accuracy on clients")
    assert run.table()._repr_html_() == run._repr_html_()


def test_a_run_that_has_nothing_evaluated_says_so(run: edgefl.Run, tmp_path: Path) -> None:
    folder = tmp_path / "<b>"
    folder.mkdir()
    (folder / "run.json").write_bytes((run.directory / "run.json").read_bytes())
    shown = edgefl.open_run(folder)._repr_html_()
    assert shown.startswith("<p>&lt;Run ") and "<b>" not in shown


def test_a_wrong_format_is_one_sentence(run: edgefl.Run) -> None:
    with pytest.raises(ValueError, match="format='excel'; expected one of text, markdown, latex, csv, html"):
        run.table(format="excel")
    with pytest.raises(ValueError, match="width='latex'; expected a number of columns; format="):
        run.table("latex")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("t.md", "**Mean accuracy"),
        ("t.tex", "% Made by edgefl."),
        ("t.csv", "method,model,seeds,accuracy,"),
        ("t.html", "<!doctype html>"),
        ("t.txt", "Mean accuracy"),
    ],
)
def test_the_command_writes_the_table_by_its_suffix(
    run: edgefl.Run, tmp_path: Path, name: str, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    assert main(["simulate", "--resume", str(run.directory), "--table", str(file), "--json"]) == 0
    assert file.read_text().startswith(begins) and "\x1b" not in file.read_text()
    printed = json.loads(capsys.readouterr().out)
    assert printed["tuning"] == run.to_json()["tuning"]
    assert printed["comparison"]["differences"] == run.to_json()["comparison"]["differences"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("t.xlsx", "--table {}; expected a file that ends in one of .txt, .md, .tex, .csv, .html"),
        ("no/t.md", "{} lies in a directory that does not exist; expected an existing directory"),
    ],
)
def test_a_table_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / name, tmp_path / "run"
    assert main(["simulate", "--run-dir", str(folder), "--table", str(file)]) == 2
    assert said.format(file) in capsys.readouterr().err
    assert not folder.exists()

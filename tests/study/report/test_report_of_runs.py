"""Reports of real runs: simulated, served, in the middle, and without their data, from Python and the command line."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

import edgefl
from edgefl.cli.cli import main
from edgefl.study.report.reported_run import names_of, reported
from tests.stored.runs import archive
from tests.study.report.test_report_page import Parsed

SETTINGS = {"rounds": 3, "epochs": 1, "clients": 4, "per_round": 2, "eval_every": 1, "workers": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> edgefl.Run:
    folder = tmp_path_factory.mktemp("report") / "first"
    return edgefl.simulate("fedspu,fedavg", directory=folder, progress=False, **SETTINGS)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what edgefl 0.1.0 has left: a simulation, and a served run that was killed after 2 of its 12 rounds."""
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(archive("0.1.0")) as tar:
        if hasattr(tarfile, "fully_trusted_filter"):
            tar.extraction_filter = tarfile.fully_trusted_filter
        tar.extractall(folder)
    return folder


def read(path: Path) -> Parsed:
    return Parsed(path.read_text("utf-8"))


def test_a_run_writes_its_report(run: edgefl.Run, tmp_path: Path) -> None:
    path = run.report(tmp_path / "report.html")
    found = read(path)
    assert "edgefl report: first" in found.words and "not over" not in found.words
    assert f"fedspu own over 3 of 3 {100 * run.methods['fedspu'].accuracy:.1f} %" in found.words
    assert str(reported(run, "first").data[-1].sha256) in found.words


def test_the_command_puts_a_simulated_and_a_served_run_beside_each_other(
    run: edgefl.Run, stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "both.html"
    assert main(["report", str(run.directory), str(stored / "run"), "-o", str(path)]) == 0
    assert capsys.readouterr().err == f"report: {path}\n"
    found = read(path)
    assert "kind of run simulated served to devices" in found.words
    assert "In run the run has not ended: fedspu with seed 1 has closed 2 rounds" in found.words


def test_a_run_of_another_version_has_a_report(stored: Path, tmp_path: Path) -> None:
    found = read(edgefl.open_run(stored / "simulated").report(tmp_path / "old.html"))
    assert "made by edgefl 0.1.0" in found.words and "fedspu own over 2 of 2 88.9 %" in found.words


def test_a_run_that_has_not_begun_has_a_report(run: edgefl.Run, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    shutil.copy(run.directory / "run.json", folder)
    found = read(edgefl.open_run(folder).report(tmp_path / "empty.html"))
    assert "Here no round has been evaluated yet" in found.words


def test_a_run_whose_second_method_has_not_begun_shows_the_first(run: edgefl.Run, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(run.directory, folder)
    shutil.rmtree(folder / "fedavg")
    found = reported(edgefl.open_run(folder), "half")
    assert (found.methods, found.is_over) == (["fedspu"], False)
    words = read(edgefl.open_run(folder).report(tmp_path / "half.html")).words
    assert "fedavg with seed 1 has closed 0 rounds, not evaluated yet" in words


def test_a_run_without_its_data_says_what_is_not_known(run: edgefl.Run, tmp_path: Path) -> None:
    import numpy as np

    x = np.random.default_rng(1).normal(size=(80, 4)).astype(np.float32)
    own = edgefl.simulate(
        "fedspu", data=(x, np.arange(80) % 2), directory=tmp_path / "own", progress=False, rounds=1, epochs=1
    )
    (kept,) = (file for file in own.directory.iterdir() if file.name.startswith("own-"))
    kept.unlink()
    words = read(edgefl.open_run(tmp_path / "own").report(tmp_path / "own.html")).words
    assert "Here the model of the run cannot be made here (" in words
    assert "so memory and the share of dense payloads are not known" in words
    assert "0 kB" not in words


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (
            ["{run}", "-o", "{folder}/r.pdf"],
            2,
            "edgefl report: {folder}/r.pdf; expected a file that ends in .html or .htm",
        ),
        (["{run}", "-o", "{folder}/no/r.html"], 2, "no/r.html lies in a directory that does not exist"),
        (["{run}", "{run}"], 2, "expected each run once"),
        (["{folder}/none"], 2, "{folder}/none/run.json is missing; expected the directory of an edgefl run"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(
    run: edgefl.Run, tmp_path: Path, given: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"run": str(run.directory), "folder": str(tmp_path)}
    assert main(["report", *(word.format(**places) for word in given)]) == code
    printed = capsys.readouterr().err
    assert said.format(**places) in printed and printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_runs_of_one_name_are_told_apart_by_what_is_above() -> None:
    assert names_of([Path("/x/a"), Path("/x/b")]) == ["a", "b"]
    assert names_of([Path("/x/a"), Path("/y/a")]) == ["x/a", "y/a"]
    assert names_of([Path("/x/a"), Path("/x/a")]) == ["a (1)", "a (2)"]

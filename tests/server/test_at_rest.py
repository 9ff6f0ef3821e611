"""A run whose files were lost, damaged or mixed while no server ran: refused by name, and nothing in it is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stored import run, same

from bench.faults.damage import Damage, damages
from edgefl.commands.cli import main
from edgefl.errors import RunError
from edgefl.experiment.run_file import open_run
from edgefl.experiment.settings import Experiment
from edgefl.server import history
from edgefl.server.progress import Progress
from edgefl.server.store import Store

SMALL = Experiment(methods=("fedavg",), clients=3, rounds=4, per_round=2, epochs=1)
INDEX = "run.db-shm"  # SQLite's, of the log: made again whenever the database is opened, and nothing is read from it


def killed(path: Path, count: int) -> Path:
    """The directory of a server that was killed after `count` batches: its log is beside the database."""
    alive = path.with_name("alive")
    open_run(alive, SMALL.to_json())
    store = Store(alive)
    for batch in run(4)[:count]:
        store.save(batch)
    shutil.copytree(alive, path)
    store.close()
    shutil.rmtree(alive)
    assert (path / "run.db-wal").stat().st_size > 0
    return path


def contents(path: Path) -> dict[str, bytes]:
    files = [file for file in path.rglob("*") if file.is_file() and file.name != INDEX]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def refusal(path: Path) -> str:
    """Of the server, in words; nothing in the directory may have changed."""
    before = contents(path)
    with pytest.raises(RunError) as caught:
        Store(path)
    assert contents(path) == before
    return str(caught.value)


def opened(path: Path) -> Progress:
    store = Store(path)
    try:
        return store.load()
    finally:
        store.close()


# A log that was lost, emptied or damaged takes the last commits with it.


@pytest.mark.parametrize("count", [1, 2, 9], ids=["enrolments only", "round 1 open", "round 2 open"])
@pytest.mark.parametrize("kind", ["deleted", "emptied", "halved", "zeroed"])
def test_a_log_that_is_lost_is_named(kind: str, count: int, tmp_path: Path) -> None:
    path = killed(tmp_path / "run", count)
    Damage(kind).strike(path / "run.db-wal")
    found = refusal(path)
    assert f"{path}/run.db-wal is " + ("missing" if kind == "deleted" else "damaged") in found
    assert f"but {path}/last_commit says {count}: " in found


def test_a_bit_of_the_log_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = killed(tmp_path / "whole", 9)
    expected = history.progress(path)
    refused = 0
    for damage in damages(path / "run.db-wal"):
        copy = tmp_path / str(damage)
        shutil.copytree(path, copy)
        damage.strike(copy / "run.db-wal")
        try:
            found = opened(copy)
        except RunError as error:
            assert "run.db-wal" in str(error)
            refused += 1
        else:
            assert same(found, expected)
    assert refused > 15


def test_serve_says_so_in_one_sentence_and_removes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = killed(tmp_path / "run", 9)
    (path / "run.db-wal").unlink()
    before = contents(path)
    assert main(["serve", "--resume", str(path), "--port", "0"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"edgefl serve: {path}/run.db is at commit 0")
    assert contents(path) == before
    assert main(["status", str(path)]) == 1
    assert "run.db-wal is missing" in capsys.readouterr().err
    assert contents(path) == before

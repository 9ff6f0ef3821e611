"""A run whose files were lost, damaged or mixed while no server ran: refused by name, and nothing in it is changed."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgefl.cli.cli import main
from edgefl.errors import RunError
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.protocol.wire import messages
from edgefl.server import run_history
from edgefl.server.run_progress import Progress
from edgefl.server.store import Store
from tests.faults.damage import Damage, damages
from tests.server.stored import reply, run, same

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
    """Return the refusal of the server in words. Nothing in the directory may have changed."""
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


@pytest.mark.parametrize("count", [1, 2, 8], ids=["enrolments only", "round 1 open", "round 2 open"])
@pytest.mark.parametrize("kind", ["deleted", "emptied", "halved", "zeroed"])
def test_a_log_that_is_lost_is_named(kind: str, count: int, tmp_path: Path) -> None:
    path = killed(tmp_path / "run", count)
    Damage(kind).strike(path / "run.db-wal")
    found = refusal(path)
    assert f"{path}/run.db-wal is " + ("missing" if kind == "deleted" else "damaged") in found
    assert f"but {path}/last_commit says {count}: " in found


def test_a_bit_of_the_log_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = killed(tmp_path / "whole", 8)
    expected = run_history.progress(path)
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
    path = killed(tmp_path / "run", 8)
    (path / "run.db-wal").unlink()
    before = contents(path)
    assert main(["serve", "--resume", str(path), "--port", "0"]) == 1
    assert capsys.readouterr().err.splitlines()[-1][20:].startswith(f"ERROR edgefl serve: {path}/run.db is at commit 0")
    assert contents(path) == before
    assert main(["status", str(path)]) == 1
    assert "run.db-wal is missing" in capsys.readouterr().err
    assert contents(path) == before


# A database that was replaced or changed.


def ended(path: Path, count: int = 8) -> Path:
    """The directory of a server that ended by itself after `count` batches."""
    open_run(path, SMALL.to_json())
    store = Store(path)
    for batch in run(4)[:count]:
        store.save(batch)
    store.close()
    return path


def test_a_server_that_has_ended_leaves_no_log(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    assert sorted(contents(path)) == [
        "id",
        "last_commit",
        "lock",
        "run.db",
        "run.json",
        "server/000001.safetensors",
    ]
    shutil.copytree(path, tmp_path / "copy")
    assert same(opened(tmp_path / "copy"), run_history.progress(path))


def test_looking_at_a_run_writes_nothing(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    before = set(path.rglob("*"))
    run_history.progress(path)
    run_history.metrics(path)
    assert set(path.rglob("*")) == before


def test_an_older_copy_of_the_database_is_named(tmp_path: Path) -> None:
    older, path = ended(tmp_path / "older", 6), tmp_path / "run"
    shutil.copytree(older, path)
    store = Store(path)
    store.save(run(4)[6])
    store.close()
    shutil.copy(older / "run.db", path)
    assert refusal(path).endswith(f"run.db-wal is missing, or {path}/run.db is an older copy")


@pytest.mark.parametrize("lost", ["run.db", "last_commit", "server/000001.safetensors"])
def test_a_file_that_is_missing_is_named(lost: str, tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    (path / lost).unlink()
    assert str(path / lost) in refusal(path)


def test_no_bit_of_the_database_changes_a_run_unnoticed(tmp_path: Path) -> None:
    """Only bits that SQLite does not use may change."""
    path = ended(tmp_path / "run")
    expected, whole, refused = run_history.progress(path), (path / "run.db").read_bytes(), 0
    for at in range(5, 8 * len(whole), 8 * len(whole) // 300):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        (path / "run.db").write_bytes(flipped)
        try:
            found = run_history.progress(path)
        except RunError as error:
            assert str(error).startswith(f"{path}/run.db ")
            refused += 1
        else:
            assert same(found, expected)
    assert refused > 15


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE clients SET capacity = capacity / 2 WHERE client = 1",
        "UPDATE participation SET outcome = 'late' WHERE client = 0 AND round = 1",
        "UPDATE rounds SET state = replace(state, '1', '2') WHERE round = 1",
        "UPDATE rounds SET line = '{}' WHERE round = 1",
        "UPDATE run SET commits = commits + 1",
        "DELETE FROM traffic",
        "INSERT INTO makers VALUES (0, 'nobody')",
    ],
)
def test_a_row_that_is_not_as_the_server_left_it_is_noticed(change: str, tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    database = sqlite3.connect(path / "run.db")
    with database:
        assert database.execute(change).rowcount == 1
    database.close()
    assert f"{path}/run.db is damaged (" in refusal(path)
    with pytest.raises(RunError, match=r"run.db is damaged \("):
        run_history.progress(path)


def test_another_number_in_a_stored_reply_is_noticed(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    stored = messages.encode(reply(2, 0))
    other = messages.encode(replace(reply(2, 0), examples=reply(2, 0).examples + 1))
    database = sqlite3.connect(path / "run.db")
    with database:
        change = database.execute("UPDATE replies SET message = ? WHERE message = ?", (other, stored))
        assert change.rowcount == 1
    database.close()
    assert "the reply of client 0 for round 2 does not have its CRC-32" in refusal(path)


# Files that do not belong together.


def test_a_bit_of_the_arrays_is_noticed(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    arrays = path / "server" / "000001.safetensors"
    for damage in damages(arrays):
        whole = arrays.read_bytes()
        damage.strike(arrays)
        assert str(arrays) in refusal(path)
        arrays.write_bytes(whole)
    assert opened(path).round == 1


def test_arrays_that_no_crash_can_have_left_are_named(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    arrays = path / "server" / "000001.safetensors"
    shutil.copy(arrays, arrays.with_name("000002.safetensors"))  # written, and then killed before the commit
    assert opened(path).round == 1
    shutil.copy(arrays, arrays.with_name("000003.safetensors"))
    assert str(arrays.with_name("000003.safetensors")) in refusal(path)


def test_an_id_of_another_run_is_named_and_a_lost_one_written_again(tmp_path: Path) -> None:
    path, other = ended(tmp_path / "run"), ended(tmp_path / "other")
    (path / "id").write_bytes((other / "id").read_bytes())
    assert refusal(path).startswith(f"{path}/id does not name the run in run.db")
    (path / "id").unlink()
    store = Store(path)
    assert (path / "id").read_text() == store.run_id != (other / "id").read_text()
    store.close()


def test_the_database_of_another_run_is_named(tmp_path: Path) -> None:
    path, other = ended(tmp_path / "run"), ended(tmp_path / "other")
    for name in ("run.db", "id"):
        shutil.copy(other / name, path)
    assert refusal(path).endswith("with another digest: the two files belong to different runs")


def test_other_settings_than_the_run_began_with_are_named(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    (path / "run.json").unlink()
    open_run(tmp_path / "slower", {**SMALL.to_json(), "lr": 0.01})
    shutil.copy(tmp_path / "slower" / "run.json", path)
    assert (
        refusal(path)
        == f"{path}/run.json has other settings than run.db was made with; expected the settings of the run"
    )


# What a crash may leave is no damage.


@pytest.mark.parametrize("left", ["", "id", "id last_commit"])
def test_a_server_that_died_while_it_began_begins_again(left: str, tmp_path: Path) -> None:
    """The database comes first and whole, then the id, then the last commit."""
    path = ended(tmp_path / "run", 0)
    for name in {"id", "last_commit"} - set(left.split()):
        (path / name).unlink()
    (path / ".run.db.tmp").write_bytes(b"half")
    assert opened(path) == Progress()


def test_a_commit_that_was_not_noted_counts(tmp_path: Path) -> None:
    path = killed(tmp_path / "run", 8)
    noted = (path / "last_commit").read_bytes()
    store = Store(path)
    store.save(run(4)[8])
    (path / "last_commit").write_bytes(noted)
    store.close()
    assert same(opened(path), run_history.progress(ended(tmp_path / "whole", 9)))


def test_a_log_that_loses_a_commit_that_its_killed_server_had_not_noted_is_named(tmp_path: Path) -> None:
    """The next server goes on from that commit, and devices hear of it."""
    path = killed(tmp_path / "run", 7)
    noted, log = (path / "last_commit").read_bytes(), (path / "run.db-wal").read_bytes()
    store = Store(path)
    store.save(run(4)[7])
    files = {file: file.read_bytes() for file in (path / "run.db", path / "run.db-wal")}
    store.close()
    for file, content in files.items():
        file.write_bytes(content)
    (path / "last_commit").write_bytes(noted)  # the server was killed before it noted the commit
    Store(path).close()
    (path / "run.db").write_bytes(files[path / "run.db"])
    (path / "run.db-wal").write_bytes(log)
    assert "run.db is at commit 7, but" in refusal(path)


def test_a_last_commit_that_was_half_written_leaves_the_one_before(tmp_path: Path) -> None:
    path = ended(tmp_path / "run")
    file = path / "last_commit"
    lines = file.read_bytes().splitlines(keepends=True)
    assert max(int(line.split()[0]) for line in lines) == 8
    file.write_bytes(lines[0] + lines[1][:40] + b"0" * (len(lines[1]) - 40))
    assert opened(path).round == 1
    file.write_bytes(b"".join(line[:40] + bytes(len(line) - 40) for line in lines))
    assert str(file) in refusal(path)


def test_a_half_written_last_commit_is_mended_before_the_next_commit(tmp_path: Path) -> None:
    """The next commit replaces the line that was whole, and a second crash may cut that line short, too."""
    path = ended(tmp_path / "run")
    file = path / "last_commit"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line.replace(b" ", b"0") if line == min(lines) else line for line in lines))
    Store(path).close()
    assert file.read_bytes() == 2 * max(lines)

"""The store's promise: a batch is durable or has not happened, whatever fails or dies at whichever step."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from edgefl.errors import RunError
from edgefl.server import run_history
from edgefl.server import store as store_module
from edgefl.server.events import Enrolment, ProvenanceRecorded, ReplyJudged, RoundClosed, RoundOpened
from edgefl.server.run_progress import Progress, Ruling
from edgefl.server.schema import create
from edgefl.server.store import Store
from edgefl.system import durable_files
from tests.forks import run_script
from tests.server.stored import DYING, POINTS, batches_of, reply, run, same, state, traffic

ROOT = str(Path(__file__).parents[2])


def after(path: Path, count: int) -> Progress:
    """Return the progress of a run whose first `count` batches were saved by an undisturbed store."""
    store = Store(path)
    for batch in run(4)[:count]:
        store.save(batch)
    store.close()
    return run_history.progress(path)


def arrays(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "server").iterdir())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Progress]:
    """Return the progress by the number of saved batches."""
    return [after(tmp_path_factory.mktemp("whole"), count) for count in range(len(run(4)) + 1)]


def test_a_new_run_is_empty(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    assert store.load() == Progress()
    store.close()


def test_commits_of_a_killed_server_are_on_the_disk_before_anything_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = Store(tmp_path)
    killed.save([Enrolment(1, 1.0)])
    killed._lock.close()
    found: list[str] = []
    monkeypatch.setattr("edgefl.server.store.sync", lambda path: found.append(path.name))
    Store(tmp_path).close()
    assert found == ["run.db", "run.db-wal", tmp_path.name]


def test_the_name_of_the_folder_of_arrays_is_synced_even_if_a_crash_has_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power can keep the file `id` and lose the folder, which was made before it."""
    Store(tmp_path).close()
    (tmp_path / "server").rmdir()
    found: list[bool] = []
    monkeypatch.setattr("edgefl.server.store.sync", lambda path: found.append((tmp_path / "server").exists()))
    Store(tmp_path).close()
    assert found[-1]


def test_what_devices_train_with_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(
        [Enrolment(1, 1.0), ProvenanceRecorded(1, "one"), ProvenanceRecorded(0, "two"), ProvenanceRecorded(1, "one")]
    )
    store.close()
    assert run_history.progress(tmp_path).provenances == ((0, "two"), (1, "one"))


def test_an_open_round_comes_back_with_its_replies(tmp_path: Path) -> None:
    found = after(tmp_path, 1 + 5 + 2)  # enrolments, all of round 1, the beginning of round 2 and its first reply
    assert found.capacities == {0: 0.5, 1: 0.75, 2: 1.0}
    assert found.secrets == {1: b"token"}
    assert (found.round, found.done, found.scored, found.opened) == (1, False, 1, (0, 1, 2))
    assert found.answers == (ReplyJudged(2, 0, "accepted", "", reply(2, 0)),)
    assert found.rulings == {
        (1, 0): Ruling("accepted", ""),
        (1, 1): Ruling("accepted", ""),
        (1, 2): Ruling("late", "the round was closed"),
        (2, 0): Ruling("accepted", ""),
        (2, 1): None,
        (2, 2): None,
    }
    assert found.state is not None
    assert found.state.arrays["model"]["w"].tolist() == [1, 1, 1]
    assert found.state.values == {"running": [0, 1], "round": 1}


def test_a_run_that_is_over_stays_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save([*run(0)[0], RoundOpened(1, (0,)), RoundClosed(1, state(1), {"round": 1}, done=True)])
    assert store.load().done
    store.close()


def test_replies_of_a_closed_round_are_not_kept(tmp_path: Path) -> None:
    after(tmp_path, len(run(4)))
    database = sqlite3.connect(tmp_path / "run.db")
    assert database.execute("SELECT count(*) FROM replies").fetchone() == (0,)
    database.close()


def test_the_arrays_of_the_last_two_closed_rounds_are_kept(tmp_path: Path) -> None:
    after(tmp_path, len(run(4)))
    assert arrays(tmp_path) == ["000003.safetensors", "000004.safetensors"]
    database = sqlite3.connect(tmp_path / "run.db")
    query = "SELECT round FROM rounds WHERE state IS NOT NULL AND sha256 IS NOT NULL"
    assert database.execute(query).fetchall() == [(3,), (4,)]
    database.close()


def test_records_saved_twice_count_once(tmp_path: Path, undisturbed: list[Progress]) -> None:
    store = Store(tmp_path)
    for batch in run(4)[:9]:
        store.save(batch)
        store.save(batch)
    assert same(store.load(), undisturbed[9])
    store.close()


def test_one_batch_for_everything_is_the_same(tmp_path: Path, undisturbed: list[Progress]) -> None:
    store = Store(tmp_path)
    store.save([record for batch in run(4)[:6] for record in batch])
    assert same(store.load(), undisturbed[6])
    store.close()


def test_history_has_the_metrics_with_their_evaluations(tmp_path: Path) -> None:
    after(tmp_path, 1 + 5 + 4)  # round 2 is closed and not evaluated
    assert run_history.metrics(tmp_path) == [{"round": 1, "evaluation": {"n": 1}}, {"round": 2}]
    assert run_history.metrics(tmp_path, after=1) == [{"round": 2}]
    assert run_history.traffic(tmp_path) == [traffic(1)]
    assert run_history.final_state(tmp_path).values["round"] == 2


# Failures that the process survives.


class Failing:
    """Lets a function fail at its n-th call, as a full disk would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
        self.left, self.original = call, getattr(owner, name)
        monkeypatch.setattr(owner, name, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.original(*arguments, **options)


@pytest.mark.parametrize("name", ["fsync", "replace", "open"])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_full_disk_loses_nothing_and_the_batch_can_be_saved_again(
    name: str, call: int, tmp_path: Path, undisturbed: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, failures = Store(tmp_path), 0
    Failing(monkeypatch, durable_files.os, name, call)
    for number, batch in enumerate(run(4)):
        try:
            store.save(batch)
        except RunError as error:
            failures += 1
            assert str(error).startswith(f"{tmp_path} cannot be written ([Errno 28] No space left on device")
            assert same(run_history.progress(tmp_path), undisturbed[number])
            store.save(batch)
        assert same(store.load(), undisturbed[number + 1])
    assert failures == 1
    store.close()


class RefusingCommit:
    """A database that cannot commit the first time."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database, self.refused = database, False

    def execute(self, sql: str, *arguments: Any) -> Any:
        if sql == "COMMIT" and not self.refused:
            self.refused = True
            raise sqlite3.OperationalError("database or disk is full")
        return self._database.execute(sql, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def test_a_commit_that_fails_is_rolled_back(tmp_path: Path, undisturbed: list[Progress]) -> None:
    store = Store(tmp_path)
    for number, batch in enumerate(run(4)):
        store._database = RefusingCommit(store._database)  # type: ignore[assignment]
        with pytest.raises(RunError, match=r"cannot be written \(database or disk is full\)"):
            store.save(batch)
        assert same(store.load(), undisturbed[number])
        store.save(batch)
        assert same(store.load(), undisturbed[number + 1])
    store.close()


FULL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.server import stored
from edgefl.errors import RunError
from edgefl.server.store import Store

store, refused = Store(Path({path!r})), 0
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
for batch in stored.run(4):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, unlimited[1]))
    try:
        store.save(batch)
    except RunError:
        refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    store.save(batch)
print(refused)
"""


def test_writes_that_the_kernel_refuses_are_repeated(tmp_path: Path, undisturbed: list[Progress]) -> None:
    """A file size limit of 0 makes every write fail, SQLite's, too. Then the limit is lifted."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    script = FULL.format(root=ROOT, path=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) == len(run(4))
    assert same(run_history.progress(tmp_path), undisturbed[-1])


def test_a_disk_that_is_full_when_a_run_begins_leaves_no_half_of_it(tmp_path: Path) -> None:
    """A file size limit lets ever more pages of the database be written."""
    refused = 0
    for pages in range(24):
        folder = tmp_path / str(pages)
        folder.mkdir()
        if not made_in(folder, 4096 * pages):
            refused += 1
            assert not run_history.is_served(folder)
            assert made_in(folder, None)
        assert run_history.progress(folder) == Progress()
    assert 5 < refused < 24


def made_in(folder: Path, limit_bytes: int | None) -> bool:
    """Return whether the database of a new run could be made where no file may be longer than the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if limit_bytes is None else limit_bytes, hard))
    try:
        create(folder, "id", "")
    except RunError as error:
        assert str(error).startswith(f"{folder}/run.db cannot be made (")
        return False
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    return True


# Death of the process.


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("call", [1, 2])
def test_a_process_killed_at_any_step_loses_at_most_the_batch_it_was_saving(
    point: str, call: int, tmp_path: Path, undisturbed: list[Progress]
) -> None:
    """SIGKILL goes to a real process. The next process finds the last whole batch, goes on, and ends alike."""
    script = DYING.format(root=ROOT, path=str(tmp_path), rounds=4, call=call, point=POINTS[point].format(call=call))
    printed = tmp_path / "printed"
    assert run_script(script, printed) == -signal.SIGKILL, printed.read_text()
    saved = len(printed.read_text().split())
    store = Store(tmp_path)
    found = store.load()
    assert same(found, undisturbed[saved]) or same(found, undisturbed[saved + 1])
    for batch in run(4)[saved:]:
        store.save(batch)
    assert same(store.load(), undisturbed[-1])
    assert arrays(tmp_path) == ["000003.safetensors", "000004.safetensors"]
    store.close()


# Readers, and what is not a run.


def test_readers_see_whole_batches_while_the_server_writes(tmp_path: Path) -> None:
    rounds, store, torn = 60, Store(tmp_path), []
    store.save(run(0)[0])
    begun, over = threading.Event(), threading.Event()

    def read() -> None:
        while not over.is_set():
            found = run_history.progress(tmp_path)
            begun.set()
            w = 0 if found.state is None else found.state.arrays["model"]["w"][0]
            if w != found.round or len(run_history.metrics(tmp_path)) < found.round:
                torn.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait()
    for round in range(1, rounds + 1):
        for batch in batches_of(round):
            store.save(batch)
    over.set()
    reader.join()
    store.close()
    assert torn == []
    assert run_history.progress(tmp_path).round == rounds


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(RunError, match="is in use by another process"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_bytes(b"no database" * 100)
    for opening in (Store, run_history.progress):
        with pytest.raises(RunError, match=r"run.db cannot be read \(file is not a database\)"):
            opening(tmp_path)


@pytest.mark.parametrize(
    ("version", "cure"),
    [
        (0, "$"),
        (
            1,
            ": an edgefl before 22 November 2026 made the run, .* with edgefl of commit 9562d322, or begin a new run",
        ),
        (2, ".* with edgefl of commit e6d57bf3"),
        (3, ".* with edgefl of commit 22a7a129"),
        (7, ": a newer edgefl made the run; update edgefl here$"),
    ],
)
def test_tables_of_another_version_are_an_error_with_the_cure(version: int, cure: str, tmp_path: Path) -> None:
    Store(tmp_path).close()
    database = sqlite3.connect(tmp_path / "run.db")
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    for opening in (Store, run_history.progress):
        with pytest.raises(RunError, match=rf"run.db has tables of version {version}; expected 4{cure}"):
            opening(tmp_path)


def test_missing_arrays_are_an_error(tmp_path: Path) -> None:
    after(tmp_path, 6)
    (tmp_path / "server" / "000001.safetensors").unlink()
    for opening in (lambda path: Store(path).load(), run_history.progress):
        with pytest.raises(RunError, match=r"000001.safetensors cannot be read"):
            opening(tmp_path)


def test_a_directory_without_a_served_run_has_no_history(tmp_path: Path) -> None:
    assert not run_history.is_served(tmp_path)
    with pytest.raises(RunError, match=r"run.db is missing; expected the database of a served run"):
        run_history.metrics(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_closed_round_has_no_final_state(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save([RoundOpened(1, (0,))])
    store.close()
    with pytest.raises(RunError, match="has no closed round; expected at least one"):
        run_history.final_state(tmp_path)


def test_the_state_is_what_was_given(tmp_path: Path) -> None:
    after(tmp_path, 4)
    found = run_history.final_state(tmp_path)
    assert found.values == state(1).values
    assert found.arrays["model"]["w"].tobytes() == state(1).arrays["model"]["w"].tobytes()


def test_a_store_that_cannot_be_opened_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path, commit: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(store_module, "LastCommit", fails)
    with pytest.raises(RunError, match="cannot be written"):
        Store(tmp_path)
    opened = [os.readlink(link.path) for link in os.scandir("/proc/self/fd") if os.path.exists(link.path)]
    assert [name for name in opened if name.startswith(str(tmp_path))] == []

"""Losses of power: the recorder against calls that are known, the disk against examples by hand, and whole runs.

The whole runs are long tests. The recorder is loaded before the C library, so it needs Linux and a C compiler.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.crash_points.disk import Disk, Variant, write_files
from tests.crash_points.points import Point, Row, crashes, run
from tests.crash_points.record import Event, Kind, Recorder, read_record
from tests.crash_points.recording import MACHINES, Federation, Recording
from tests.faults.steps import compiler

needs_recorder = pytest.mark.skipif(
    sys.platform != "linux" or compiler() is None,
    reason="changes are recorded with LD_PRELOAD, by a library built by cc",
)

CALLS = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("d")
file = os.open("d/a", os.O_CREAT | os.O_WRONLY, 0o600)
os.write(file, b"one")
os.pwrite(file, b"two", 10)
os.writev(file, [b"x", b"yz"])
os.fsync(file)
os.ftruncate(file, 5)
os.fdatasync(file)
os.close(file)
os.rename("d/a", "d/b")
folder = os.open("d", os.O_RDONLY)
os.fsync(folder)
os.rename("b", "c", src_dir_fd=folder, dst_dir_fd=folder)
os.unlink("c", dir_fd=folder)
os.rmdir("d")
open(sys.argv[1] + "-beside", "wb").write(b"not recorded")
try:
    os.rename("gone", "back")
except OSError:
    open("e", "ab").write(b"1")
    open("e", "ab").write(b"23")
    open("e", "wb")
"""
RECORD = [
    ("mkdir d", 0, b""),
    ("create d/a", 0, b""),
    ("write d/a", 0, b"one"),
    ("write d/a", 10, b"two"),
    ("write d/a", 3, b"x"),
    ("write d/a", 4, b"yz"),
    ("sync d/a", 0, b""),
    ("truncate d/a", 5, b""),
    ("sync d/a", 0, b""),
    ("rename d/a", 0, b"d/b"),
    ("sync d", 0, b""),
    ("rename d/b", 0, b"d/c"),
    ("unlink d/c", 0, b""),
    ("rmdir d", 0, b""),
    ("create e", 0, b""),
    ("write e", 0, b"1"),
    ("write e", 1, b"23"),
    ("truncate e", 0, b""),
]


@needs_recorder
def test_every_change_is_recorded_in_order(tmp_path: Path) -> None:
    place, log = tmp_path / "place", tmp_path / "log"
    place.mkdir()
    environment = {**os.environ, **Recorder(tmp_path).environment(place, log)}
    subprocess.run([sys.executable, "-S", "-c", CALLS, place], env=environment, check=True)
    assert [(str(event), event.at, event.data) for event in read_record(log)] == RECORD


DATABASE = """
import os, sqlite3
database = sqlite3.connect("a.db", isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("PRAGMA synchronous = FULL")
database.execute("CREATE TABLE t (x)")
database.execute("INSERT INTO t VALUES (7)")
os._exit(0)
"""


@needs_recorder
def test_a_database_on_the_disk_is_the_database_in_the_record(tmp_path: Path) -> None:
    """A commit of SQLite in its log mode: the log is synced, so that the row is there if nothing else is."""
    place, log = tmp_path / "place", tmp_path / "log"
    place.mkdir()
    environment = {**os.environ, **Recorder(tmp_path).environment(place, log)}
    subprocess.run([sys.executable, "-c", DATABASE], cwd=place, env=environment, check=True)
    disk = Disk.of(tmp_path / "nothing")
    for event in read_record(log):
        disk.apply(event)
    everything = disk.left("all", random.Random(0))
    assert everything == {name: (place / name).read_bytes() for name in ("a.db", "a.db-wal")}
    assert disk.left("nothing", random.Random(0))["a.db-wal"] == everything["a.db-wal"]


def event(words: str, data: bytes = b"", at: int = 0) -> Event:
    kind, name = words.split(" ")
    return Event(Kind[kind.upper()], 1, name, at, data)


REPLACED = [event("create t"), event("write t", b"new"), event("sync t"), event("rename t", b"f"), event("sync .")]


@pytest.mark.parametrize(
    ("events", "nothing", "everything"),
    [
        pytest.param([], {"f": b"old"}, {"f": b"old"}, id="nothing-happened"),
        pytest.param([event("write f", b"X", 1)], {"f": b"old"}, {"f": b"oXd"}, id="written"),
        pytest.param([event("write f", b"X", 4), event("sync f")], {"f": b"old\0X"}, {"f": b"old\0X"}, id="synced"),
        pytest.param([event("truncate f", at=1)], {"f": b"old"}, {"f": b"o"}, id="truncated"),
        pytest.param(REPLACED[:3], {"f": b"old"}, {"f": b"old", "t": b"new"}, id="a-synced-file-without-its-name"),
        pytest.param(REPLACED[:4], {"f": b"old"}, {"f": b"new"}, id="renamed"),
        pytest.param(REPLACED, {"f": b"new"}, {"f": b"new"}, id="replaced"),
        pytest.param([*REPLACED[:2], *REPLACED[3:]], {"f": b""}, {"f": b"new"}, id="replaced-without-a-sync"),
        pytest.param([event("unlink f")], {"f": b"old"}, {}, id="unlinked"),
        pytest.param([event("unlink f"), event("sync .")], {}, {}, id="unlinked-and-synced"),
        pytest.param(
            [event("mkdir d"), event("create d/a"), event("write d/a", b"1"), event("sync d/a"), event("sync d")],
            {"f": b"old"},
            {"f": b"old", "d": None, "d/a": b"1"},
            id="a-folder-whose-name-is-lost",
        ),
    ],
)
def test_a_loss_of_power_leaves_what_is_synced(
    events: list[Event], nothing: dict[str, bytes], everything: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"old")
    disk = Disk.of(tmp_path)
    for each in events:
        disk.apply(each)
    assert disk.left("nothing", random.Random(0)) == nothing
    assert disk.left("all", random.Random(0)) == everything
    assert bool(disk.undurable()) == (nothing != everything)


def drawn(disk: Disk, draws: int = 200) -> set[tuple[tuple[str, bytes | None], ...]]:
    return {tuple(disk.left("torn", random.Random(seed)).items()) for seed in range(draws)}


def test_a_write_is_torn_at_512_bytes_only(tmp_path: Path) -> None:
    """600 bytes from byte 500 on: 12 bytes of the first sector, the second sector, and 76 bytes of the third one."""
    (tmp_path / "f").write_bytes(bytes(500))
    disk = Disk.of(tmp_path)
    disk.apply(event("write f", b"x" * 600, 500))
    found = {content for ((_, content),) in drawn(disk) if content is not None}
    first, second, third = b"x" * 12, b"x" * 512, b"x" * 76
    none = bytes(512)
    assert found == {
        bytes(500) + torn
        for torn in (
            b"",
            first,
            none[:12] + second,
            none[:12] + none + third,
            first + second,
            first + none + third,
            none[:12] + second + third,
            first + second + third,
        )
    }


def test_names_are_lost_one_by_one(tmp_path: Path) -> None:
    """A file is made and renamed: it has no name, the first name or the second name, and never both names."""
    disk = Disk.of(tmp_path)
    for each in (event("create t"), event("sync t"), event("rename t", b"f")):
        disk.apply(each)
    assert drawn(disk) == {(), (("t", b""),), (("f", b""),)}


@pytest.mark.parametrize("variant", ["nothing", "torn"])
def test_files_are_made_as_they_were_left(variant: Variant, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/f").write_bytes(b"1")
    left = Disk.of(tmp_path).left(variant, random.Random(0))
    write_files(tmp_path / "copy", left)
    assert Disk.of(tmp_path / "copy").left("all", random.Random(0)) == left == {"one": None, "one/f": b"1"}


@needs_recorder
def test_a_run_goes_on_after_a_loss_of_power_unless_a_sync_was_omitted(tmp_path: Path) -> None:
    """The loss comes after the last commit. Then it comes to a record without the syncs of the log or of a reply."""
    federation = Federation(tmp_path)
    recording = federation.record("plain")
    found = struck(federation, recording, "write run/last_commit", -1)
    assert (found.lost, found.difference, found.undurable > 0) == (None, None, True)
    log = struck(federation, recording.without_syncs("run.db-wal"), "write run/last_commit", -1)
    assert "run.db is at commit 0; expected at least" in (log.lost or "")
    assert "is newer than the last round in" in (log.difference or "")
    reply = struck(federation, recording.without_syncs(".pending.safetensors.tmp"), "sync pending", 0)
    assert "pending.safetensors" in (reply.difference or "")


def struck(federation: Federation, recording: Recording, words: str, which: int) -> Row:
    """Return the case of a loss of everything that is not synced, after one of the events with these words."""
    if words == "sync pending":  # the sync of the folder after the name
        renames = [at for at, each in enumerate(recording.events) if each.data.endswith(b"/pending.safetensors")]
        process, folder = recording.events[renames[0]].process, Path(recording.events[renames[0]].name).parent
        later = [(at, each) for at, each in enumerate(recording.events) if at > renames[0] and each.process == process]
        at = next(at for at, each in later if str(each) == f"sync {folder}")
    else:
        at = [at for at, each in enumerate(recording.events) if str(each) == words][which]
    directory = Path(tempfile.mkdtemp(dir=federation.directory))
    point = Point(at, dict.fromkeys(MACHINES, "nothing"), seed=1)
    (row,) = (run(federation, crash) for crash in crashes(recording, [point], directory))
    return row

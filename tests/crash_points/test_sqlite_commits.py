"""Losses of power inside SQLite's commits: the store's own calls are recorded, and a disk loses what is not synced.

A small limit lets SQLite copy its log into run.db often, so that the record has checkpoints, and logs that begin anew.
The recorder is loaded before the C library, so the test needs Linux and a C compiler.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from edgefl.errors import RunError
from edgefl.server.run_progress import Progress
from edgefl.server.store import Store
from tests.crash_points.disk import Disk, Variant, write_files
from tests.crash_points.record import Event, Kind, Recorder, read_record
from tests.crash_points.test_crash_points import needs_recorder
from tests.server.stored import run, same

ROUNDS, PAGES = 6, 16  # rounds that are saved, and pages of the log after which SQLite copies them into run.db
POINTS = 90  # points in a record

SCRIPT = """
import os, sys
from pathlib import Path
from edgefl.server.store import Store
from tests.server.stored import run
store = Store(Path("run"))
store._database.execute("PRAGMA wal_autocheckpoint = {pages}")
store._database.execute("PRAGMA synchronous = {synchronous}")
saved = os.open("saved", os.O_CREAT | os.O_WRONLY)
for batch in run({rounds}):
    store.save(batch)
    os.write(saved, b".")
os._exit(0)
"""


def recorded(tmp_path: Path, synchronous: str) -> list[Event]:
    place, log = tmp_path / "place", tmp_path / "log"
    place.mkdir()
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, **Recorder(tmp_path).environment(place, log)}
    script = SCRIPT.format(pages=PAGES, synchronous=synchronous, rounds=ROUNDS)
    subprocess.run([sys.executable, "-c", script], cwd=place, env=environment, check=True)
    return list(read_record(log))


def is_saved(event: Event) -> bool:
    """Return whether a batch counts as durable from this event on."""
    return event.kind is Kind.WRITE and event.name == "saved"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Progress]:
    """Return the progress by the number of saved batches."""
    store = Store(tmp_path_factory.mktemp("whole"))
    found = [store.load()]
    for batch in run(ROUNDS):
        store.save(batch)
        found.append(store.load())
    store.close()
    return found


def opened(path: Path) -> Progress:
    store = Store(path)
    try:
        return store.load()
    finally:
        store.close()


def lost(tmp_path: Path, events: list[Event], undisturbed: list[Progress]) -> list[str]:
    """Return what is wrong after losses of power at points of the record. Some points lose everything that is not
    synced, and others a random part of it.
    """
    (tmp_path / "nothing").mkdir()
    disk, found, saved = Disk.of(tmp_path / "nothing"), list[str](), 0
    first = next(at for at, event in enumerate(events) if is_saved(event))
    wanted = set(random.Random(0).sample(range(first, len(events)), min(POINTS, len(events) - first)))
    for at, event in enumerate(events):
        disk.apply(event)
        saved += is_saved(event)
        variant: Variant = "torn" if at % 2 else "nothing"
        if at in wanted and (words := _lost(tmp_path / str(at), disk, variant, undisturbed[saved : saved + 2])):
            found.append(f"after {event}, {variant}: {words}")
    return found


def _lost(folder: Path, disk: Disk, variant: Variant, expected: list[Progress]) -> str:
    write_files(folder, disk.left(variant, random.Random(folder.name), "run"))
    try:
        progress = opened(folder / "run")
    except RunError as error:
        return str(error)
    return "" if any(same(progress, each) for each in expected) else f"round {progress.round} came back"


@needs_recorder
def test_every_saved_batch_is_there_after_a_loss_of_power_inside_a_commit(
    tmp_path: Path, undisturbed: list[Progress]
) -> None:
    events = recorded(tmp_path, "FULL")
    checkpoints = [event for event in events if event.kind is Kind.WRITE and event.name == "run/run.db"]
    restarts = [
        event for event in events if event.kind is Kind.WRITE and event.name == "run/run.db-wal" and not event.at
    ]
    assert len(checkpoints) > 10
    assert len(restarts) > 1
    assert lost(tmp_path, events, undisturbed) == []


@needs_recorder
@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_a_database_that_does_not_sync_every_commit_is_found(
    synchronous: str, tmp_path: Path, undisturbed: list[Progress]
) -> None:
    assert lost(tmp_path, recorded(tmp_path, synchronous), undisturbed)

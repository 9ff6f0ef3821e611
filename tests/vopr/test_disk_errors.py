"""Errors of a simulated disk: calls that fail, an fsync that lies afterwards, bits that change, and what people do."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from edgefl.server.events import Enrolment
from edgefl.server.round_rules import Rules
from edgefl.server.store import Store
from edgefl.system.durable_files import sync
from tests.vopr import faults, seams
from tests.vopr.bit_rot import rotten
from tests.vopr.case import Case
from tests.vopr.disk import Disk
from tests.vopr.ledger import BrokenPromiseError, Ledger, check_synced
from tests.vopr.operator import Operator
from tests.vopr.process import Process
from tests.vopr.rows import rows_of
from tests.vopr.schedule import Schedule
from tests.vopr.settings import Settings
from tests.vopr.simulation import memory
from tests.vopr.world import World

SETTINGS = Settings(Rules(1, 1), None)
CALLS = range(1, 200, 13)  # numbers of calls of a server that starts, and of the rounds that follow


@pytest.mark.parametrize(("whom", "kinds"), [("server", {"open", "SQL"}), ("device", {"fsync"})])
def test_a_run_ends_well_whichever_call_of_the_disk_fails(
    whom: str, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "planned", lambda *settings: [])
    failed = set[str]()
    for call in CALLS:
        with tempfile.TemporaryDirectory(dir=memory()) as folder:
            world = World(Case(3, 0.1, 2, "fedavg"), Path(folder))

            def strike(world: World = world, call: int = call) -> None:
                process = world.server if whom == "server" else world.devices[1]
                assert process is not None
                process.kill(loses_power=False)
                process.disk.calls_left = call

            world.schedule.at(150.0, strike)
            world.run()
        assert world.failure is None, call
        failed |= {line.split(": ")[1] for line in world.schedule.trace if line.endswith(" fails")}
    assert {words.split()[0] for words in failed} >= kinds


def disk_of(folder: Path) -> Disk:
    disk = Disk(folder, random.Random(0))
    (disk.home / "file").write_bytes(b"old")
    disk.sync(disk.home / "file")
    disk.sync(disk.home)
    return disk


def after_a_loss_of_power(disk: Disk) -> bytes:
    disk.turn_over(loses_power=True)
    return (disk.home / "file").read_bytes()


def test_what_a_failed_fsync_has_dropped_is_lost_unless_it_is_written_again(tmp_path: Path) -> None:
    """The simulation draws what a loss of power leaves, so that a promise shows in many draws."""
    found: dict[bool, set[bytes]] = {False: set(), True: set()}
    for is_written_again in found:
        for draw in range(40):
            disk = disk_of(tmp_path / f"{is_written_again}-{draw}")
            disk._stream.seed(draw)
            (disk.home / "file").write_bytes(b"new")
            disk.drop(disk.home / "file")
            if is_written_again:
                disk.dirty(disk.home / "file")
            disk.sync(disk.home / "file")
            found[is_written_again].add(after_a_loss_of_power(disk))
    assert b"old" in found[False]
    assert found[True] == {b"new"}


def test_a_commit_that_sqlite_has_not_synced_yet_can_be_lost(tmp_path: Path) -> None:
    found = set[bytes]()
    for draw in range(40):
        disk = disk_of(tmp_path / str(draw))
        disk._stream.seed(draw)
        disk.sync_own(disk.home / "file")
        disk.hold(disk.home / "file")
        (disk.home / "file").write_bytes(b"new")
        disk.turn_over(loses_power=False)
        found.add(after_a_loss_of_power(disk))
    assert found >= {b"old", b"new"}


def test_a_process_that_goes_on_after_a_failed_fsync_has_to_tell(tmp_path: Path) -> None:
    process = process_of(disk_of(tmp_path))
    process.disk.calls_left = 1
    process.schedule.running = process
    with seams.placed(process.schedule), pytest.raises(OSError, match="Input/output error"):
        sync(process.disk.home)
    check_synced(process)  # its last words follow at once
    process.schedule.now += 1.0
    with pytest.raises(BrokenPromiseError, match="server goes on after the fsync of 0 has failed"):
        check_synced(process)
    process.tells("the directory cannot be written ([Errno 5] Input/output error)")
    check_synced(process)


def test_a_server_that_goes_on_with_other_rows_after_a_bit_has_changed_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path / "run")
    store.save([Enrolment(0, 1.0)])
    ledger, before = Ledger(), rows_of(tmp_path / "run")
    ledger.rows = before
    ledger.resumed(store.load(), store)
    ledger.rows = before
    store._database.execute("UPDATE clients SET capacity = 0.5")
    with pytest.raises(BrokenPromiseError, match="the server goes on with other rows in"):
        ledger.resumed(store.load(), store)
    store.close()


def process_of(disk: Disk) -> Process:
    return Process("server", Schedule(0), disk, lambda process, loses_power: None)


def test_one_bit_of_a_file_changes_and_the_file_is_restored_by_its_name(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    operator, process = Operator(random.Random(0), SETTINGS, 2, 1), process_of(disk)
    operator.rot(process)
    damaged = (disk.home / "file").read_bytes()
    assert sum((one ^ other).bit_count() for one, other in zip(damaged, b"old", strict=True)) == 1
    assert operator.blame(process, RuntimeError("something is damaged")) == "server ends: something is damaged"
    assert (disk.home / "file").read_bytes() == damaged
    assert operator.blame(process, RuntimeError(f"{disk.home / 'file'} is damaged")) is None
    assert (disk.home / "file").read_bytes() == b"old"


def test_a_file_that_was_written_since_is_not_restored(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    damage = rotten(disk.home, random.Random(0))
    assert damage is not None
    (disk.home / "file").write_bytes(b"other")
    damage.repair(disk)
    assert (disk.home / "file").read_bytes() == b"other"


def test_a_file_that_was_restored_stays_restored_after_a_loss_of_power(tmp_path: Path) -> None:
    for draw in range(20):
        disk = disk_of(tmp_path / str(draw))
        disk._stream.seed(draw)
        damage = rotten(disk.home, random.Random(0))
        assert damage is not None
        disk.sync(disk.home / "file")
        damage.repair(disk)
        assert after_a_loss_of_power(disk) == b"old"


def test_an_end_without_the_file_that_failed_is_a_broken_promise(tmp_path: Path) -> None:
    disk = disk_of(tmp_path)
    operator, process = Operator(random.Random(0), SETTINGS, 2, 1), process_of(disk)
    disk.calls_left = 1
    process.schedule.running = process
    with seams.placed(process.schedule), pytest.raises(OSError, match="Input/output error") as caught:
        (disk.home / "file").read_bytes()
    assert operator.blame(process, caught.value) is None  # the error of an open names its file
    nameless = OSError(5, "Input/output error")
    assert operator.blame(process, nameless) is not None

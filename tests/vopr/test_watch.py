"""The simulator's looks now and then: what is held is bounded, waits are told, and what has ended writes no more.

Each promise has a mistake that breaks it.
"""

from __future__ import annotations

import os
import re
import weakref
from pathlib import Path

import pytest

from edgefl.server.coordinator import Coordinator
from edgefl.server.event_loop import Server
from edgefl.server.peer import Peer
from edgefl.system import durable_files
from tests.vopr.bounds import Bounds
from tests.vopr.device import DeviceProcess
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.schedule import Schedule
from tests.vopr.simulation import simulate


def failure(seed: int) -> str:
    return simulate(seed, hours=0.1, devices=3, method="fedavg").failure or "held"


def test_a_server_that_keeps_lost_connections_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Server.left

    def kept(server: Server, peer: Peer) -> None:
        left(server, peer)
        server._peers[-peer.link] = peer

    monkeypatch.setattr(Server, "left", kept)
    assert re.fullmatch("1[1-9] connections of the server; expected at most 10", failure(6))


def test_a_file_that_stays_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def sync(path: Path) -> None:
        opened.append(os.open(path, os.O_RDONLY))
        os.fsync(opened[-1])

    with monkeypatch.context() as planted:
        planted.setattr(durable_files, "sync", sync)
        found = failure(0)
    for handle in opened:
        os.close(handle)
    assert found.endswith("open files; expected at most 14")


def test_objects_that_are_kept_are_found() -> None:
    bounds = Bounds(devices=3)
    with bounds.counted():
        kept: list[object] = []
        bounds.check(None, devices=3, verdicts=0)
        kept.extend([] for _ in range(6000))
        with pytest.raises(BrokenPromiseError, match=r"60\d\d objects in memory; expected at most 5800"):
            bounds.check(None, devices=3, verdicts=0)
        kept[:] = range(6000)
        with pytest.raises(BrokenPromiseError, match=r"6\d\d\d entries of objects in memory; expected at most 3900"):
            bounds.check(None, devices=3, verdicts=0)
        bounds.check(None, devices=3, verdicts=2000)  # a run of so many verdicts may keep two entries for each


def test_a_process_that_writes_after_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    end = DeviceProcess._end

    def busy(device: DeviceProcess, error: Exception | None) -> None:
        end(device, error)
        device.schedule.after(0.0, lambda: (device.disk.home / "late").write_text("late"))

    monkeypatch.setattr(DeviceProcess, "_end", busy)
    assert re.fullmatch("late of /device-[0-9]/[0-9]+ changed after its process had ended", failure(0))


def test_a_server_that_does_not_say_for_whom_it_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "awaited", lambda coordinator, now: None)
    still = "the server has stood still in .* for 120 s and waits for nobody; expected to hear for whom it waits"
    assert re.fullmatch(still, failure(0))


def test_the_events_of_the_present_time_are_handled_and_no_later_ones() -> None:
    schedule, seen = Schedule(0), list[str]()
    schedule.at(1.0, lambda: schedule.after(0.0, lambda: seen.append("now")))
    schedule.at(2.0, lambda: seen.append("later"))
    schedule.step()
    schedule.settle()
    assert seen == ["now"]


class Life:
    """A process without code."""

    is_alive, halted_until = True, 0.0


def test_a_schedule_lets_go_of_the_events_of_dead_processes() -> None:
    schedule, living, dead = Schedule(1), Life(), Life()
    done: list[str] = []
    schedule.at(1.0, lambda: done.append("living"), living)
    schedule.drop(schedule.at(2.0, lambda: done.append("dropped"), dead))
    kept = weakref.ref(dead)
    schedule.at(3.0, lambda: done.append("dead"), dead)
    dead.is_alive = False
    del dead
    assert kept() is not None
    schedule.forget_dead()
    assert kept() is None
    while schedule.step():
        pass
    assert done == ["living"]
    assert schedule.now == 1.0

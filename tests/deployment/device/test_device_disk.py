"""A disk that is full for a while delays a device and loses nothing."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from edgefl.errors import RunError
from tests.deployment.device.device_cases import (
    cut,
    files,
    messages_of,
)
from tests.deployment.device.device_server import ScriptedServer, converse


class FullDisk:
    """A disk on which every write fails until the device has waited a few times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits: int) -> None:
        self.waits, self.paused = waits, []  # type: tuple[int, list[int]]
        self.monkeypatch = monkeypatch

    def fill(self) -> None:
        def refused(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self.freed = self.monkeypatch.context()
        self.freed.__enter__().setattr("os.fsync", refused)

    def pause(self, failures: int) -> None:
        self.paused.append(failures)
        if len(self.paused) == self.waits:
            self.freed.__exit__(None, None, None)


@pytest.mark.parametrize("before", ["handle Welcome", "handle ModelChunk", "handle Train", "handle Verdict"])
def test_a_full_disk_delays_and_loses_nothing(
    before: str, server: ScriptedServer, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = make(1)
    converse(undisturbed, server)
    expected, server.replies = files(undisturbed), {}
    disk, said = FullDisk(monkeypatch, waits=3), []  # type: tuple[FullDisk, list[str]]
    device = make(said=said, pause=disk.pause)
    sent: list[tuple[str, int]] = []

    def step(what: str) -> None:
        if what == before and not disk.paused:
            disk.fill()
        sent.append((what, len(disk.paused)))

    converse(device, server, step)
    assert files(device) == expected
    assert disk.paused == [0, 1, 2]
    assert said == [f"{device._state.path}: No space left on device; trying again until there is room"]
    assert sent[[waits for _, waits in sent].index(3) - 1] == (before, 0)  # nothing was sent before there was room


def test_a_disk_that_fails_otherwise_ends_the_device(server: ScriptedServer, make: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    device = make()
    cut(device, server, "handle Train")
    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(RunError, match=r"cannot be written .*Input/output error"):
        messages_of(device, server.script[1])

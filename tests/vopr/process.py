"""A process of the simulation. It lives on one disk, and can be killed, halted and started again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.vopr.disk import Disk
from tests.vopr.schedule import Schedule

DISK_FAILS = ("nput/output error", "disk I/O error")  # parts of words that tell of an error of the disk


class KilledError(BaseException):
    """The end of a process in the middle of its work. No code of edgefl catches it."""


class Process:
    """One life of a process.

    name          name in the trace
    is_alive      whether it has neither ended nor been killed
    halted_until  time until which it does nothing, as a process that is stopped or a machine that sleeps
    full_until    time until which its disk is full
    disk_error    the call that failed with an error of the disk in this life, or ""
    failed_sync   the file whose fsync failed in this life, of which no words have told since, or ""
    failed_at     the virtual time of that fsync
    is_struck     whether it was killed at a seam
    on_death      called with the process and whether the power was lost, when it is killed
    """

    def __init__(self, name: str, schedule: Schedule, disk: Disk, on_death: Callable[[Process, bool], None]) -> None:
        self.name, self.schedule, self.disk = name, schedule, disk
        self.is_alive, self.halted_until, self.full_until = True, 0.0, 0.0
        self._on_death, self._seams_left, self._loses_power = on_death, 0, False
        self.disk_error, self._at, self.is_struck = "", "", False
        self.failed_sync, self.failed_at = "", 0.0

    def arm(self, seams: int, loses_power: bool, at: str = "") -> None:
        """Kill the process at its next but `seams` - 1 seam whose name begins with `at`."""
        self._seams_left, self._loses_power, self._at = seams, loses_power, at

    def disarm(self) -> None:
        """Let the process live, and give its disk room."""
        self._seams_left = 0
        self.full_until = 0.0

    @property
    def is_armed(self) -> bool:
        """Return whether it will be killed at one of its next seams."""
        return self.is_alive and self._seams_left > 0

    def touch(self, seam: str) -> None:
        """Note that the process is at a seam. Raises KilledError if it is killed there."""
        if not self.is_alive or not self._seams_left or not seam.startswith(self._at):
            return
        self._seams_left -= 1
        if not self._seams_left:
            self.schedule.note(f"{self.name} is killed at {seam}")
            self.is_struck = True
            self.kill(self._loses_power)
            raise KilledError(seam)

    def tells(self, words: str) -> None:
        """Note words for people. If they tell of an error of the disk, no failed fsync is passed over in silence."""
        if any(each in words for each in DISK_FAILS):
            self.failed_sync = ""

    def call(self, what: str, path: Path | None = None) -> None:
        """Note a call of the disk. Raises OSError if it fails. `path` is the path that the system's error names."""
        if self.is_alive and self.disk.fails():
            self.schedule.note(f"{self.name}: {what} fails")
            self.disk_error = what
            raise OSError(errno.EIO, os.strerror(errno.EIO), *([] if path is None else [str(path)]))

    @property
    def is_full(self) -> bool:
        """Return whether the disk has no room now."""
        return self.is_alive and self.schedule.now < self.full_until

    def need_room(self) -> None:
        """Raise the error of a full disk while the disk is full."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def kill(self, loses_power: bool) -> None:
        """End the process. What its disk holds then is what its next life finds."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.schedule.note(f"{self.name} {'loses power' if loses_power else 'is killed'}")
        self.disk.turn_over(loses_power)
        self._on_death(self, loses_power)
        self.schedule.after(0.0, self.dispose)

    @contextmanager
    def in_good_order(self) -> Iterator[None]:
        """Let an operator use the disk, even from a line that the process says: no call fails, and no seam kills."""
        left = self.disk.calls_left, self._seams_left, self.full_until
        self.disk.calls_left, self._seams_left, self.full_until = -1, 0, 0.0
        try:
            yield
        finally:
            self.disk.calls_left, self._seams_left, self.full_until = left

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds. A process that does so runs in a fiber."""
        raise NotImplementedError(f"{self.name} sleeps {seconds} s; expected a process with a fiber")

    def dispose(self) -> None:
        """Let go of what a killed process held open."""

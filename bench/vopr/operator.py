"""What people do about a process that has ended by itself: they read its last words, and start it again if they can.

A process may end for a reason that its disk gave. Its last words have to name the file. Then somebody restores a
damaged file from a copy, and starts the process again.
"""

from __future__ import annotations

import random
from pathlib import Path

from bench.vopr.bit_rot import Damage, rotten
from bench.vopr.disk import Disk
from bench.vopr.process import Process
from edgefl.cli.access_error import sentence

DISK_FAILS = ("nput/output error", "disk I/O error")
NOBODY = "no device takes part"


class Operator:
    """The people who look after all machines."""

    def __init__(self, stream: random.Random) -> None:
        self._stream = stream
        self._damages: dict[Disk, list[Damage]] = {}
        self._have_ended = False  # whether a device has ended for a reason that its disk gave

    def rot(self, process: Process) -> None:
        """Change a bit of a file of a process that is down."""
        if (damage := rotten(process.disk.home, self._stream)) is not None:
            process.schedule.note(f"a bit of {damage.name} of {process.name} changes")
            self._damages.setdefault(process.disk, []).append(damage)

    def blame(self, process: Process, error: BaseException) -> str | None:
        """Read the last words of a process. Return what is wrong about its end, or None if it can start again."""
        words = sentence(error) if isinstance(error, Exception) else str(error)
        damages = self._damages.get(process.disk, [])
        named = [each for each in damages if Path(each.name).name in words]
        for damage in reversed(named):  # a file may have been damaged twice
            damages.remove(damage)
            damage.repair(process.disk.home)
        is_named = str(process.disk.home.parent) in words and any(each in words for each in DISK_FAILS)
        if named or (process.disk_error and is_named):
            self._have_ended = True
            return None
        if self._have_ended and words.startswith(NOBODY):
            return None
        return f"{process.name} ends: {words}"

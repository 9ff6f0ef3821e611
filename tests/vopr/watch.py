"""The promises that are looked at now and then: holdings are bounded, waits are told, and what has ended is silent.

The promises about single messages are in ledger.py.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.vopr.bounds import Bounds
from tests.vopr.disk import UNSEEN
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.schedule import Schedule
from tests.vopr.server import ServerProcess

EVERY_S = (
    120.0  # virtual seconds between two looks. A server that stands still for so long has to say for whom it waits
)
COUNTED = 5  # looks between two looks at what is held, which take some milliseconds


class Watch:
    """The looks at one simulation."""

    def __init__(self, devices: int, schedule: Schedule) -> None:
        self.bounds, self._schedule = Bounds(devices), schedule
        self._looks = 0
        self._left: dict[Path, str] = {}

    def look(self, server: ServerProcess | None, devices: int, verdicts: int) -> None:
        """Look at what the server, if it runs, and so many devices hold, and at whom the server waits for."""
        self._looks += 1
        if self._looks % COUNTED == 0:
            self._schedule.forget_dead()
            self.bounds.check(server, devices, verdicts)
        if server is not None and (stage := server.stands_in(EVERY_S)) is not None:
            hindered_until = max(server.halted_until, server.full_until)
            if hindered_until < server.schedule.now - EVERY_S and server.awaited() is None:
                raise BrokenPromiseError(
                    f"the server has stood still in {stage} for {EVERY_S:g} s and waits for nobody; expected to hear"
                    " for whom it waits"
                )

    def ended(self, folder: Path) -> None:
        """Note that a process with this folder has ended by itself."""
        self._left[folder] = _content(folder)

    def begins(self, folder: Path) -> None:
        """Check that nothing was written since the process that had this folder has ended, if there was one."""
        left = self._left.pop(folder, None)
        if left is not None and left != (found := _content(folder)):
            before, after = set(left.splitlines()), set(found.splitlines())
            names = sorted({line.partition(" ")[2] for line in before ^ after})
            raise BrokenPromiseError(f"{', '.join(names)} of {folder} changed after its process had ended")

    def forget(self, folder: Path) -> None:
        """Note that somebody else is about to change the folder of a process that has ended."""
        self._left.pop(folder, None)

    def end(self, have_failed: bool) -> None:
        """Check what is left once all processes are gone, of which some `have_failed` by an error of the disk.

        Such a process ends with what it has open, and Python keeps that with the error.
        """
        for folder in list(self._left):
            self.begins(folder)
        if not have_failed:
            self.bounds.check_end()


def _content(folder: Path) -> str:
    """Return a line for every file: its digest and its path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(UNSEEN))
    return "\n".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.relative_to(folder)}" for path in files)

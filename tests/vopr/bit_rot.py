"""Bit rot: one bit of a file that changes while its process is down, and the repair from a copy of that file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from tests.vopr.disk import SECTOR, UNSEEN, Disk

EXEMPT = ("lock", "live.json")  # files whose content no process reads again


class Damage(NamedTuple):
    """A changed bit: the name of its file, and the content of the file before and after the change."""

    name: str
    before: bytes
    after: bytes

    def repair(self, disk: Disk) -> None:
        """Restore the file and sync it, unless something else has been written there since."""
        file = disk.home / self.name
        if file.exists() and file.read_bytes() == self.after:
            file.write_bytes(self.before)
            disk.sync(file)


def rotten(home: Path, stream: random.Random) -> Damage | None:
    """Change one bit of one file below `home`, and return the damage. Return None if there is no file."""
    files = [file for file in sorted(home.rglob("*")) if file.is_file() and file.name not in EXEMPT]
    files = [file for file in files if not file.name.endswith(UNSEEN) and file.stat().st_size]
    if not files:
        return None
    file = stream.choice(files)
    before = file.read_bytes()
    changed = bytearray(before)
    changed[_place(before, stream)] ^= 1 << stream.randrange(8)
    file.write_bytes(changed)
    return Damage(file.relative_to(home).as_posix(), before, bytes(changed))


def _place(content: bytes, stream: random.Random) -> int:
    """Return the number of a byte. Zeros are passed over, because most of SQLite's bytes are 0 and hold nothing.

    Every sector that holds something is as likely as any other, so that rows of small tables are reached, too.
    """
    sectors = [at for at in range(0, len(content), SECTOR) if any(content[at : at + SECTOR])]
    begin = stream.choice(sectors or [0])
    held = [at for at in range(begin, min(begin + SECTOR, len(content))) if content[at]]
    return stream.choice(held or [begin])

"""Bit rot: one bit of a file that changes while its process is down, and the repair from a copy of that file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from bench.vopr.disk import UNSEEN

EXEMPT = ("lock",)  # files whose content nobody reads


class Damage(NamedTuple):
    """A changed bit: the name of its file, and the content of the file before and after the change."""

    name: str
    before: bytes
    after: bytes

    def repair(self, home: Path) -> None:
        """Restore the file, unless something else has been written there since."""
        file = home / self.name
        if file.exists() and file.read_bytes() == self.after:
            file.write_bytes(self.before)


def rotten(home: Path, stream: random.Random) -> Damage | None:
    """Change one bit of one file below `home`, and return the damage. Return None if there is no file."""
    files = [file for file in sorted(home.rglob("*")) if file.is_file() and file.name not in EXEMPT]
    files = [file for file in files if not file.name.endswith(UNSEEN) and file.stat().st_size]
    if not files:
        return None
    file = stream.choice(files)
    before = file.read_bytes()
    changed = bytearray(before)
    changed[stream.randrange(len(before))] ^= 1 << stream.randrange(8)
    file.write_bytes(changed)
    return Damage(file.relative_to(home).as_posix(), before, bytes(changed))

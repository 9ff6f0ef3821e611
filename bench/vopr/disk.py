"""The disk of one machine: a folder, and what of it a loss of power would leave.

The files are real. The disk remembers which bytes of a file an fsync has made durable, and which names of a directory.
A killed process leaves everything that it wrote. A loss of power may leave any mixture that POSIX allows: each name as
it was at the last fsync of its directory or as it was last, and each file as it was at its last fsync, as it was last,
or only the beginning of it.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

UNSEEN = "-shm"  # end of the name of SQLite's shared memory, which is no part of what a process leaves


class Disk:
    """A disk whose content is in the folder `home`. After each crash `home` is another folder."""

    def __init__(self, root: Path, stream: random.Random) -> None:
        self._root, self._stream, self._life = root, stream, 0
        self.home = root / "0"
        self.home.mkdir(parents=True)
        self._all_is_durable()

    def _all_is_durable(self) -> None:
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        for folder, _, files in os.walk(self.home):
            self._names[os.stat(folder).st_ino] = _entries(Path(folder))
            for name in files:
                file = Path(folder) / name
                self._bytes[file.stat().st_ino] = file.read_bytes()

    def sync(self, path: Path) -> None:
        """Make the bytes of a file durable, or the names of a directory."""
        number = path.stat().st_ino
        if path.is_dir():
            self._names[number] = _entries(path)
        else:
            self._bytes[number] = path.read_bytes()

    def sync_name(self, path: Path) -> None:
        """Make the name of one file durable, which SQLite does for its own files."""
        self._names.setdefault(path.parent.stat().st_ino, {})[path.name] = path.stat().st_ino

    def turn_over(self, loses_power: bool) -> None:
        """Go on with what is left after a crash, in a new folder. The old folder stays until `drop_old`."""
        old, self._life = self.home, self._life + 1
        self.home = self._root / str(self._life)
        if loses_power:
            self._now = {number: path for path in old.rglob("*") for number in [path.stat().st_ino]}
            self._leave(old.stat().st_ino, old, self.home)
        else:
            shutil.copytree(old, self.home, ignore=shutil.ignore_patterns(f"*{UNSEEN}"))
        self._all_is_durable()

    def drop_old(self) -> None:
        """Remove the folders of earlier lives."""
        for folder in self._root.iterdir():
            if folder != self.home:
                shutil.rmtree(folder)

    def _leave(self, number: int, old: Path | None, new: Path) -> None:
        """Write what is left of a directory."""
        new.mkdir()
        before, after = self._names.get(number, {}), {} if old is None else _entries(old)
        for name in sorted(before.keys() | after.keys()):
            versions = [each for each in (before.get(name), after.get(name)) if each is not None]
            is_settled = before.get(name) == after.get(name)
            if not is_settled and len(versions) == 1:
                versions = [*versions, 0]
            chosen = versions[0] if is_settled else self._stream.choice(versions)
            if chosen and not name.endswith(UNSEEN):
                self._leave_entry(chosen, new / name)

    def _leave_entry(self, number: int, new: Path) -> None:
        now = self._now.get(number)
        if number in self._names or (now is not None and now.is_dir()):
            self._leave(number, now, new)
            return
        durable = self._bytes.get(number, b"")
        last = durable if now is None else now.read_bytes()
        if last != durable:
            last = self._stream.choice([durable, last, last[: self._stream.randrange(len(last) + 1)]])
        new.write_bytes(last)


def _entries(folder: Path) -> dict[str, int]:
    """Return the entries of a directory, by name."""
    return {entry.name: entry.inode() for entry in os.scandir(folder)}

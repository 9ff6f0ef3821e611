"""The disk of one machine: a folder, and what of it a loss of power would leave.

The files are real. The disk remembers which bytes of a file an fsync has made durable, and which names of a directory.
A killed process leaves everything that it wrote. A loss of power may leave any mixture of old and new. Each name is as
it was at the last fsync of its directory, or as it was last. Each file is as it was at its last fsync, as it was last,
or in part: a first part of what was written, or some of its sectors. A rename counts whole or not at all, as on file
systems with a journal, and renames may count in any order.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import stat
from contextlib import suppress
from pathlib import Path

_open = open  # of the simulator, whose own reads are no calls of a process
WRITING_S = 0.02
SECTOR = 512  # bytes that a disk writes as a whole
UNSEEN = "-shm"  # end of the name of SQLite's shared memory, which is no part of what a process leaves


class Disk:
    """A disk whose content is in the folder `home`. After each crash `home` is another folder.

    clock_s     seconds by which the wall clock of the machine is ahead of the simulation
    leapt_at    virtual time at which that clock leapt last
    calls_left  number of calls of processes up to the call that fails, or -1 if no call will fail
    has_failed  whether a call has failed
    writing_s   most seconds that a commit takes
    """

    def __init__(self, root: Path, stream: random.Random) -> None:
        self._root, self._stream, self._life, self.calls_left = root, stream, 0, -1
        self.clock_s, self.leapt_at, self.has_failed, self.writing_s = 0.0, -math.inf, False, WRITING_S
        self.home, self._freed = root / "0", root / "freed"
        self.home.mkdir(parents=True)
        self._all_is_durable()

    def _all_is_durable(self) -> None:
        shutil.rmtree(self._freed, ignore_errors=True)
        self._freed.mkdir()
        self._bytes: dict[int, bytes | None] = {}  # None: as the file is
        self._names: dict[int, dict[str, int]] = {}
        self._renames: dict[int, list[tuple[str, str, int]]] = {}  # by directory, since its last fsync
        self._dropped: set[int] = set()  # files whose last fsync failed, and that were not written since
        for folder, _, files in os.walk(self.home):
            self._names[os.stat(folder).st_ino] = _entries(Path(folder))
            for name in files:
                file = Path(folder) / name
                self._bytes[file.stat().st_ino] = file.read_bytes()

    @property
    def prefix(self) -> str:
        """The beginning of the paths of all files."""
        return f"{self.home}{os.sep}"

    def fails(self) -> bool:
        """Count a call of a process, and return whether it fails with EIO."""
        self.calls_left = max(self.calls_left - 1, -1)
        self.has_failed = self.has_failed or not self.calls_left
        return not self.calls_left

    def sync(self, path: str | Path) -> None:
        """Make the bytes of a file durable, or the names of a directory."""
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = _entries(path)
            self._renames.pop(found.st_ino, None)
        elif found.st_ino not in self._dropped:
            self._bytes[found.st_ino] = content_of(path)

    def drop(self, path: str | Path) -> None:
        """Note that an fsync has failed. The system takes what was written for clean, and never writes it again."""
        found = os.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            self._dropped.add(found.st_ino)

    def dirty(self, file: str | Path | int) -> None:
        """Note that a process writes to a file, which is a path or the number of an open file."""
        if self._dropped:
            self._dropped.discard(os.stat(file).st_ino)

    def sync_own(self, path: str | Path) -> None:
        """Make a file of SQLite durable with its name. SQLite writes it within a commit, and then syncs it."""
        folder, name = os.path.split(path)
        number = os.stat(path).st_ino
        self._bytes[number] = None
        self._names.setdefault(os.stat(folder).st_ino, {})[name] = number

    def hold(self, path: str | Path) -> None:
        """Note that SQLite is about to write to a file that it synced before. Until it syncs the file again, a loss of
        power can take what it writes.
        """
        number = os.stat(path).st_ino
        if self._bytes.get(number, b"") is None:
            self._bytes[number] = content_of(path)

    def keep(self, path: str | Path) -> None:
        """Note that a name is about to go. Its file keeps its number, which no other file gets then."""
        with suppress(FileNotFoundError):
            found = os.stat(path)
            if stat.S_ISREG(found.st_mode):
                with suppress(FileExistsError):
                    os.link(path, self._freed / str(found.st_ino))

    def renamed(self, old: str | Path, new: str | Path) -> None:
        """Note a rename within a directory, which has just been made."""
        folder, name = os.path.split(new)
        renames = self._renames.setdefault(os.stat(folder).st_ino, [])
        renames.append((os.path.basename(old), name, os.stat(new).st_ino))

    def turn_over(self, loses_power: bool) -> None:
        """Go on with what is left after a crash, in a new folder. The old folder stays until `drop_old`."""
        old, self._life = self.home, self._life + 1
        self.home = self._root / str(self._life)
        if loses_power:
            self._now = {number: path for path in old.rglob("*") for number in [path.stat().st_ino]}
            self._leave(old.stat().st_ino, old, self.home)
            self._all_is_durable()
        else:
            shutil.copytree(old, self.home, ignore=shutil.ignore_patterns(f"*{UNSEEN}"))
            self._carry_over(old)

    def _carry_over(self, old: Path) -> None:
        """Know of the copied files what is known of the files of the life before."""
        copies = {old.stat().st_ino: self.home.stat().st_ino}
        for path in self.home.rglob("*"):
            copies[(old / path.relative_to(self.home)).stat().st_ino] = path.stat().st_ino

        def of(number: int) -> int:
            return copies.get(number, number)

        self._bytes = {of(number): content for number, content in self._bytes.items()}
        self._dropped = set(map(of, self._dropped))
        self._names = {
            of(folder): {name: of(number) for name, number in names.items()} for folder, names in self._names.items()
        }
        self._renames = {
            of(folder): [(source, target, of(number)) for source, target, number in renames]
            for folder, renames in self._renames.items()
        }

    def empty(self) -> None:
        """Go on with an empty disk."""
        self._life += 1
        self.home = self._root / str(self._life)
        self.home.mkdir()
        self._all_is_durable()

    def drop_old(self) -> None:
        """Remove the folders of earlier lives."""
        for folder in self._root.iterdir():
            if folder not in (self.home, self._freed):
                shutil.rmtree(folder)

    def _leave(self, number: int, old: Path | None, new: Path) -> None:
        """Write what is left of a directory."""
        new.mkdir()
        before, after = self._names.get(number, {}), {} if old is None else _entries(old)
        renames = self._renames.get(number, [])
        left = dict(before)
        for name in sorted((before.keys() | after.keys()) - {name for each in renames for name in each[:2]}):
            chosen = self._stream.choice((before.get(name), after.get(name)))
            left.pop(name, None)
            left |= {name: chosen} if chosen else {}
        for source, target, renamed in renames:
            if self._stream.random() < 0.5:
                left.pop(source, None)
                left[target] = renamed
        for name in sorted(left):
            if not name.endswith(UNSEEN):
                self._leave_entry(left[name], new / name)

    def _leave_entry(self, number: int, new: Path) -> None:
        now = self._now.get(number)
        if number in self._names or (now is not None and now.is_dir()):
            self._leave(number, now, new)
            return
        durable = self._bytes.get(number, b"")
        last = durable or b"" if now is None else now.read_bytes()
        if durable is not None and last != durable:
            cut = self._stream.randrange(len(last) + 1)
            rest = durable[cut:] if len(durable) <= len(last) else b""  # what is synced stays unless it is cut off
            last = self._stream.choice([durable, last, last[:cut] + rest, self._torn(durable, last)])
        new.write_bytes(last)

    def _torn(self, before: bytes, after: bytes) -> bytes:
        """Return content of which every sector is the old or the new one. A new sector that is not there has zeros."""
        old = before[: len(after)].ljust(len(after), b"\0")
        sectors = range(0, len(after), SECTOR)
        return b"".join(self._stream.choice((old, after))[at : at + SECTOR] for at in sectors)


def content_of(path: str | Path, size: int = -1) -> bytes:
    """Return the content of a file, or its first `size` bytes, without a call of a process."""
    with _open(path, "rb", buffering=0) as file:
        return file.read(size)


def _entries(folder: str | Path) -> dict[str, int]:
    """Return the entries of a directory, by name."""
    return {entry.name: entry.inode() for entry in os.scandir(folder)}

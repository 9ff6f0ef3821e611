"""RUN/last_commit: number and digest of the last commit of run.db, written after it. A database that has lost commits,
with its log or to an older copy, is behind it. Not what is committed (store.py), nor what is made of it
(directory_check.py).

Two lines of one length, for commits of even and of odd number: number, digest, CRC-32. A commit takes the place of the
last but one, so a line that is damaged or half written leaves the commit before it. It is written before anything that
follows from the commit, but the disk is not waited for: after a loss of power it may be some commits older than run.db,
never newer.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

from edgefl.errors import RunError
from edgefl.system.durable_files import write_atomically

LAST_COMMIT = "last_commit"


class Commit(NamedTuple):
    """A commit of run.db. `digest`: of all that the database holds after it, 64 hexadecimal digits."""

    number: int
    digest: str


class LastCommit:
    """The file, open for the process that commits."""

    def __init__(self, folder: Path, commit: Commit) -> None:
        """Makes the file if there is none, of a database whose last commit is this one. Raises OSError."""
        file = folder / LAST_COMMIT
        if not file.exists():
            write_atomically(file, 2 * _line(commit))
        self._file = open(file, "r+b", buffering=0)  # noqa: SIM115 (closed by close)

    def close(self) -> None:
        self._file.close()

    def write(self, commit: Commit) -> None:
        """From now on this is the last commit. Raises OSError."""
        line = _line(commit)
        self._file.seek(commit.number % 2 * len(line))
        self._file.write(line)


def read_last_commit(folder: Path) -> Commit | None:
    """The last commit; None if there is no such file. Raises RunError if no line of it is whole."""
    file = folder / LAST_COMMIT
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    found = [commit for commit in map(_commit, content.splitlines(keepends=True)) if commit is not None]
    if not found:
        raise RunError(f"{file} is damaged; expected number and digest of the last commit of run.db")
    return max(found)


def _line(commit: Commit) -> bytes:
    text = f"{commit.number:012d} {commit.digest}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def _commit(line: bytes) -> Commit | None:
    """What a line says; None if it is not whole."""
    number, _, digest = line[: -len(" 00000000\n")].decode("ascii", "replace").partition(" ")
    found = Commit(int(number), digest) if number.isascii() and number.isdigit() else None
    return found if found is not None and _line(found) == line else None

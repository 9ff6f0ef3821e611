"""The file RUN/last_commit: number and digest of the last commit of run.db, written after the commit.

If a database has lost commits, with its log or by an older copy, it is behind this file. The file has two lines of one
length, for commits of even and of odd number: number, digest, CRC-32. A commit replaces the last but one, so a damaged
or half written line leaves the previous commit. The file is written before anything that follows from the commit, but
without waiting for the disk. After a loss of power it may be some commits older than run.db, and never newer.

store.py makes the commits, and directory_check.py uses the file.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

from edgefl.errors import RunError
from edgefl.system.durable_files import naming, write_atomically

LAST_COMMIT = "last_commit"


class Commit(NamedTuple):
    """A commit of run.db.

    digest  digest of all that the database holds after the commit, 64 hexadecimal digits
    """

    number: int
    digest: str


class LastCommit:
    """The file, open for the process that commits."""

    def __init__(self, folder: Path, commit: Commit) -> None:
        """Open the file for a database whose last commit is this one, and write that commit. Raises OSError.

        The file is made if it is missing. It is made again if a crash has left only one whole line, because the next
        commit may replace that line. A process that was killed may have made the last commit without writing it here.
        """
        file = folder / LAST_COMMIT
        if not file.exists() or len(_commits(file.read_bytes())) < 2:
            write_atomically(file, 2 * _line(commit))
        self._file = open(file, "r+b", buffering=0)  # noqa: SIM115 (closed by close)
        self.write(commit)

    def close(self) -> None:
        self._file.close()

    def write(self, commit: Commit) -> None:
        """Write the last commit. Raises OSError."""
        line = _line(commit)
        self._file.seek(commit.number % 2 * len(line))
        self._file.write(line)


def read_last_commit(folder: Path) -> Commit | None:
    """Return the last commit, or None if there is no file. Raises RunError if no line of the file is whole."""
    file = folder / LAST_COMMIT
    try:
        with naming(file):
            content = file.read_bytes()
    except FileNotFoundError:
        return None
    found = _commits(content)
    if not found:
        raise RunError(f"{file} is damaged; expected number and digest of the last commit of run.db")
    return max(found)


def _commits(content: bytes) -> list[Commit]:
    """Return the commits in the whole lines of the file."""
    return [commit for commit in map(_commit, content.splitlines(keepends=True)) if commit is not None]


def _line(commit: Commit) -> bytes:
    text = f"{commit.number:012d} {commit.digest}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


def _commit(line: bytes) -> Commit | None:
    """Return the commit in a line, or None if the line is not whole."""
    number, _, digest = line[: -len(" 00000000\n")].decode("ascii", "replace").partition(" ")
    found = Commit(int(number), digest) if number.isascii() and number.isdigit() else None
    return found if found is not None and _line(found) == line else None

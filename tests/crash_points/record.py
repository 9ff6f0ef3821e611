"""The record of all changes that processes make to the files of a directory. record.c writes it from outside.

No product code knows of the record. disk.py says what of it a loss of power leaves.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.faults.steps import compiler

SOURCE = Path(__file__).with_name("record.c")
HEAD = struct.Struct("=iiqII")  # struct record of record.c


class Kind(Enum):
    """The kinds of record.c. RANGE is sync_file_range, which promises nothing after a loss of power."""

    CREATE = "c"
    TRUNCATE = "t"
    WRITE = "w"
    SYNC = "s"
    RANGE = "p"
    RENAME = "r"
    UNLINK = "u"
    MKDIR = "m"
    RMDIR = "d"
    SEND = "n"


@dataclass(frozen=True)
class Event:
    """A call that has succeeded.

    process  id of the process
    name     path in the recorded directory, "." for the directory
    at       offset of a write, size of a truncation, bytes of a sending
    data     bytes of a write, or the new name of a rename
    """

    kind: Kind
    process: int
    name: str
    at: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name}"


class Recorder:
    """The library that records, built once into a directory. Raises RuntimeError if there is no C compiler."""

    def __init__(self, directory: Path) -> None:
        cc = compiler()
        if cc is None:
            raise RuntimeError("no program cc; expected a C compiler, which builds the recorder of changes")
        self._library = directory / "record.so"
        subprocess.run([cc, "-O1", "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl"], check=True)

    def environment(self, directory: Path, log: Path, killed_before: int | None = None) -> dict[str, str]:
        """Return variables for a process whose changes under `directory` are appended to `log`.

        killed_before  number of the sync before which the process gets SIGKILL, from 0
        """
        places = {
            "LD_PRELOAD": str(self._library),
            "RECORD_DIR": os.path.realpath(directory),
            "RECORD_LOG": str(log),
        }
        return places if killed_before is None else {**places, "RECORD_KILL": str(killed_before)}


def read_record(log: Path) -> Iterator[Event]:
    """Yield the events of a log, in order."""
    content, at = log.read_bytes(), 0
    while at < len(content):
        kind, process, offset, name_size, data_size = HEAD.unpack_from(content, at)
        at += HEAD.size
        name, data = content[at : at + name_size], content[at + name_size : at + name_size + data_size]
        at += name_size + data_size
        yield Event(Kind(chr(kind)), process, name.decode(), offset, data)

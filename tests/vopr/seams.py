"""The calls by which a process reaches disk and randomness. In a simulation a process can be killed at each of them.

While the seams are in place, an fsync is noted instead of made, and random bytes of the module secrets come from the
seed. The build has no commit, whose length would change the length of messages. SQLite's own fsyncs are modelled: a
commit syncs the log if its connection is synchronous, and a checkpoint syncs the database.
"""

from __future__ import annotations

import builtins
import io
import os
import random
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import safetensors

import edgefl
from edgefl.methods.rounds import provenance
from tests.vopr.disk import content_of
from tests.vopr.open_file import opening
from tests.vopr.process import Process
from tests.vopr.schedule import Schedule

BEGIN = 1.8e9  # seconds since 1970 at which a simulation begins
LOG_HEAD = 24  # bytes of SQLite's log that are others once it begins anew
FULL = 2  # SQLite's PRAGMA synchronous, from which on a commit is on the disk when it returns


@contextmanager
def placed(schedule: Schedule) -> Iterator[None]:
    """Place the seams for the length of the with block."""
    stream, connect = schedule.stream("secrets"), sqlite3.connect

    def process() -> Process | None:
        running = schedule.running
        return running if isinstance(running, Process) and running.is_alive else None

    def connected(database: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        return connect(database, *args, factory=_connection(process, Path(database)), **options)

    with (
        mock.patch.object(provenance, "build", lambda: edgefl.__version__),
        mock.patch.object(os, "fsync", _fsync(process)),
        mock.patch.object(os, "replace", _around(process, os.replace)),
        mock.patch.object(os, "unlink", _around(process, os.unlink)),
        mock.patch.object(builtins, "open", opening(process, builtins.open)),
        mock.patch.object(io, "open", opening(process, io.open)),
        mock.patch.object(safetensors, "safe_open", _reading(process, safetensors.safe_open)),
        mock.patch.object(sqlite3, "connect", connected),
        mock.patch.object(time, "sleep", _sleeping(process, time.sleep)),
        mock.patch.object(random, "uniform", stream.uniform),
        mock.patch.object(time, "time", lambda: _wall_clock(schedule, process())),
        mock.patch.object(secrets, "token_bytes", stream.randbytes),
        mock.patch.object(secrets, "token_hex", lambda size: stream.randbytes(size).hex()),
    ):
        yield


def _sleeping(process: Callable[[], Process | None], real: Callable[[float], None]) -> Callable[[float], None]:
    """Return the function `sleep`, which takes virtual seconds in a process."""

    def sleep(seconds: float) -> None:
        found = process()
        (real if found is None else found.sleep)(seconds)

    return sleep


def _wall_clock(schedule: Schedule, process: Process | None) -> float:
    """Return the time of the day by the clock of the process's machine, in seconds since 1970."""
    return BEGIN + schedule.now + (0.0 if process is None else process.disk.clock_s)


def _around(process: Callable[[], Process | None], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call with a seam before it and one after it."""

    def around(*args: Any, **options: Any) -> Any:
        if (found := process()) is None:
            return call(*args, **options)
        what = f"{call.__name__} {os.path.basename(args[-1])}"
        found.touch(f"before {what}")
        found.call(what, Path(args[-1]))
        if len(args) > 1:
            found.need_room()
        found.disk.keep(args[-1])
        result = call(*args, **options)
        if len(args) > 1:
            found.disk.renamed(args[0], args[1])
        found.touch(f"after {what}")
        return result

    return around


def _fsync(process: Callable[[], Process | None]) -> Callable[[int], None]:
    def fsync(handle: int) -> None:
        if (found := process()) is None:
            return
        path = os.readlink(f"/proc/self/fd/{handle}")
        name = os.path.basename(path)
        found.touch(f"before fsync {name}")
        found.need_room()
        try:
            found.call(f"fsync {name}")
        except OSError:
            found.disk.drop(path)
            found.failed_sync, found.failed_at = name, found.schedule.now
            raise
        found.disk.sync(path)
        found.touch(f"after fsync {name}")

    return fsync


def _reading(process: Callable[[], Process | None], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that reads a file, which can fail."""

    def read(file: Any, *args: Any, **options: Any) -> Any:
        if (found := process()) is not None:
            found.call(f"read {Path(file).name}")
        return call(file, *args, **options)

    return read


def _connection(process: Callable[[], Process | None], file: Path) -> type[sqlite3.Connection]:
    """Return the class of a connection to this database whose commits are seams."""

    log = file.with_name(f"{file.name}-wal")

    class Connection(sqlite3.Connection):
        begun: bytes | None = None  # head of the log at the last commit
        level: int | None = None  # SQLite's PRAGMA synchronous, which stays what it is at the first commit

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            found = process()
            if found is not None:
                self._call(found, sql)
            if found is None or sql != "COMMIT":
                return super().execute(sql, *args)
            found.touch("before COMMIT")
            if found.is_full:
                raise sqlite3.OperationalError("database or disk is full")
            if found.is_armed and os.path.exists(log):  # without a kill nobody sees what is not synced in between
                found.disk.hold(log)
            result = super().execute(sql, *args)
            is_synced = self._is_synced(found)
            found.touch("within COMMIT")
            if is_synced:
                found.disk.sync_own(log)
            found.touch("after COMMIT")
            return result

        def _call(self, found: Process, sql: str) -> None:
            """Let a statement fail as SQLite does if the disk fails."""
            try:
                if sql != "ROLLBACK":
                    found.call(f"SQL {sql[:30]}")
            except OSError:
                raise sqlite3.OperationalError("disk I/O error") from None

        def _is_synced(self, found: Process) -> bool:
            """Return whether a commit syncs the log. If the log began anew, a checkpoint has synced the database."""
            if self.level is None:
                (self.level,) = super().execute("PRAGMA synchronous").fetchone()
            if self.level < FULL or not os.path.exists(log):
                return False
            begun = content_of(log, LOG_HEAD)
            if self.begun not in (None, begun):
                found.disk.sync_own(file)
            self.begun = begun
            return True

    return Connection

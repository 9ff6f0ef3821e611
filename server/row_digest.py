"""A digest of every row in run.db, so that no bit of it changes unnoticed. SQLite has no checksums of its own there.

The digest is the sum of the rows' SHA-256 modulo 2^256, and the table `run` holds it. So it needs no order, and a
change costs only the rows that it touches: triggers of the writing connection add or subtract the hash of a row. The
digest shows damage and not forgery, because who can write the file can write the digest.

The message of a reply, and the data of a group's event, do not count. Their CRC-32 counts, so that they can be removed
without being read.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

from edgefl.server.last_commit import Commit

MODULUS = 1 << 256
NOT_COUNTED = {("run", "digest"), ("replies", "message"), ("group_events", "data")}
TRIGGERS = {"INSERT": "{new}", "DELETE": "{old}", "UPDATE": "{old}, {new}"}


class Account:
    """A counter of the changes that a connection makes. Make one, then `end` every transaction with it."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database, self._change = database, 0
        database.create_function("account", -1, self._add)
        database.execute("PRAGMA recursive_triggers = ON")  # so that a replaced row counts as deleted
        for table, columns in _tables(database):
            old, new = (f"account({sign}, '{table}', {_of(row, columns)})" for sign, row in ((-1, "OLD"), (1, "NEW")))
            for event, calls in TRIGGERS.items() if table != "run" else ():
                what = f"AFTER {event} ON main.{table} BEGIN SELECT {calls.format(old=old, new=new)}; END"
                database.execute(f"CREATE TEMP TRIGGER {event.lower()}_{table} {what}")

    def begin(self) -> None:
        """Begin a transaction. Changes of an unfinished earlier transaction do not count."""
        self._change = 0

    def end(self) -> Commit:
        """Make the last change of a transaction: write and return its number and digest."""
        *row, number, digest = self._database.execute("SELECT id, settings, commits, digest FROM run").fetchone()
        change = self._change - _hash("run", (*row, number)) + _hash("run", (*row, number + 1))
        commit = Commit(number + 1, f"{(int(digest, 16) + change) % MODULUS:064x}")
        self._database.execute("UPDATE run SET commits = ?, digest = ?", commit)
        return commit

    def _add(self, sign: int, table: str, *row: object) -> None:
        self._change += sign * _hash(table, row)


def last_commit(database: sqlite3.Connection) -> Commit:
    """Return the commit that the database says it is at."""
    return Commit(*database.execute("SELECT commits, digest FROM run").fetchone())


def digest(database: sqlite3.Connection) -> str:
    """Return the digest of every row, and of the tables themselves, as 64 hexadecimal digits."""
    total = sum(_hash("schema", row) for row in database.execute("SELECT name, sql FROM sqlite_master"))
    for table, columns in _tables(database):
        total += sum(_hash(table, row) for row in database.execute(f"SELECT {', '.join(columns)} FROM {table}"))
    return f"{total % MODULUS:064x}"


def check_content(database: sqlite3.Connection) -> Commit:
    """Return the commit that the database is at. Raises ValueError or sqlite3.Error if anything in it is damaged."""
    (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise ValueError(str(found).replace("\n", " "))
    commit = last_commit(database)
    if digest(database) != commit.digest:
        raise ValueError(f"the digest of its rows is not the digest of commit {commit.number}")
    return commit


def _hash(table: str, row: tuple[object, ...]) -> int:
    return int.from_bytes(hashlib.sha256(repr((table, *row)).encode()).digest(), "little")


def _of(row: str, columns: list[str]) -> str:
    return ", ".join(f"{row}.{column}" for column in columns)


def _tables(database: sqlite3.Connection) -> Iterator[tuple[str, list[str]]]:
    """Yield every table, with its columns that count."""
    for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        yield table, [column for column in columns if (table, column) not in NOT_COUNTED]

"""The members of a run in run.db: clients that take no part, tags of devices, and the commands of the operator.

Databases of earlier versions lack these tables. Such a run goes on without commands and tags.
"""

from __future__ import annotations

import json
import sqlite3

from edgefl.server.events import DeviceRefusal
from edgefl.server.member_records import ClientRemoved, OperatorCommand, TagsRecorded
from edgefl.server.schema import has_table

REFUSALS, REMOVED, TAGS, COMMANDS = "refusals", "removed", "tags", "commands"
Member = DeviceRefusal | ClientRemoved | TagsRecorded | OperatorCommand


def write(database: sqlite3.Connection, record: Member) -> None:
    """Add a record to the transaction. To write a record twice has the effect of writing it once."""
    execute = database.execute
    table = REFUSALS if isinstance(record, DeviceRefusal) else COMMANDS
    if not has_table(database, table):
        return
    if isinstance(record, DeviceRefusal | ClientRemoved):
        table = REFUSALS if isinstance(record, DeviceRefusal) else REMOVED
        execute(f"DELETE FROM {table} WHERE client = ?", (record.client,))
        if record.reason:
            execute(f"INSERT INTO {table} VALUES (?, ?)", (record.client, record.reason))
    elif isinstance(record, TagsRecorded):
        execute(f"DELETE FROM {TAGS} WHERE client = ?", (record.client,))
        database.executemany(f"INSERT INTO {TAGS} VALUES (?, ?, ?)", [(record.client, *tag) for tag in record.tags])
    else:
        row = record.name, record.given, record.round, json.dumps(record.words)
        execute(f"INSERT OR IGNORE INTO {COMMANDS} (name, given, round, words) VALUES (?, ?, ?, ?)", row)
        if record.words == ("stop",):
            _end_after_last(database)


def is_kept(database: sqlite3.Connection) -> bool:
    """Return whether the run keeps members, tags and commands."""
    return has_table(database, COMMANDS)


def refusals(database: sqlite3.Connection) -> dict[int, str]:
    """Return by client why its device takes no part."""
    if not has_table(database, REFUSALS):
        return {}
    return dict(database.execute(f"SELECT client, reason FROM {REFUSALS} ORDER BY client"))


def removed(database: sqlite3.Connection) -> dict[int, str]:
    """Return by client why the operator has removed it."""
    return dict(database.execute(f"SELECT client, reason FROM {REMOVED} ORDER BY client")) if is_kept(database) else {}


def tags(database: sqlite3.Connection) -> dict[int, dict[str, str]]:
    """Return the tags by client, of the clients that have tags."""
    found: dict[int, dict[str, str]] = {}
    if is_kept(database):
        for client, name, value in database.execute(f"SELECT client, name, value FROM {TAGS} ORDER BY client, name"):
            found.setdefault(client, {})[name] = value
    return found


def commands(database: sqlite3.Connection) -> tuple[OperatorCommand, ...]:
    """Return the commands in the order in which they were carried out."""
    if not is_kept(database):
        return ()
    rows = database.execute(f"SELECT name, given, round, words FROM {COMMANDS} ORDER BY place").fetchall()
    return tuple(OperatorCommand(name, given, round, tuple(json.loads(words))) for name, given, round, words in rows)


def _end_after_last(database: sqlite3.Connection) -> None:
    """Note that no round follows the last closed round, unless a round is open. That round then notes it at its end."""
    if database.execute("SELECT 1 FROM rounds WHERE done IS NULL").fetchone() is None:
        database.execute("UPDATE rounds SET done = 1 WHERE round = (SELECT max(round) FROM rounds)")

"""The events of the open round's groups in run.db. They are removed when the round is closed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from zlib import crc32

from edgefl.server.events import GroupEvent
from edgefl.server.schema import has_table

TABLE = "group_events"


def write(database: sqlite3.Connection, event: GroupEvent) -> None:
    """Add an event to the transaction."""
    row = event.place, event.round, event.draw, event.kind, event.client, crc32(event.data), event.data
    database.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def events(database: sqlite3.Connection) -> Iterator[GroupEvent]:
    """Yield the events in order. Raises ValueError for data that are damaged."""
    if not has_table(database, TABLE):
        return
    for place, round, draw, kind, client, expected, data in database.execute(f"SELECT * FROM {TABLE} ORDER BY place"):
        if crc32(data) != expected:
            raise ValueError(f"event {place} of a group of round {round} does not have its CRC-32")
        yield GroupEvent(round, place, draw, kind, client, data)


def clear(database: sqlite3.Connection) -> None:
    """Remove the events of a round that is closed."""
    if has_table(database, TABLE):
        database.execute(f"DELETE FROM {TABLE}")

"""The open tasks of an asynchronous run in run.db: which rounds took replies in, and which tasks are open."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgefl.errors import RunError
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.state_file import NO_FROZEN, Frozen
from edgefl.server.array_files import arrays_file
from edgefl.server.events import ReplyJudged
from edgefl.server.run_progress import EarlierRound, Progress
from edgefl.server.schema import has_table

TABLE = "closes"


def write(database: sqlite3.Connection, record: ReplyJudged) -> None:
    """Add to the transaction the round that takes a reply in, if it is a later round than the reply's own."""
    if record.closes > record.round:
        row = record.round, record.client, record.closes
        database.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?)", row)


def closes(database: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Return by (round, client) the round that took a reply in, where it was a later round than the reply's own."""
    if not has_table(database, TABLE):
        return {}
    return {(round, client): number for round, client, number in database.execute(f"SELECT * FROM {TABLE}")}


def with_earlier(
    found: Progress, database: sqlite3.Connection, path: Path, max_staleness: int | None, still: Frozen = NO_FROZEN
) -> Progress:
    """Return the progress with the closed rounds of which tasks were open when the next round began, or would begin.
    No such round is looked for without a largest staleness.

    Raises  RunError if the state of such a round is missing or corrupt
    """
    if max_staleness is None:
        return found
    return replace(found, earlier=tuple(_earlier(database, path, found.round, max_staleness, still)))


def _earlier(
    database: sqlite3.Connection, path: Path, closed: int, max_staleness: int, still: Frozen
) -> Iterator[EarlierRound]:
    first, number = max(closed + 1 - max_staleness, 1), closed + 1
    query = f"""
        SELECT round, client FROM participation LEFT JOIN {TABLE} USING (round, client)
        WHERE round BETWEEN ? AND ? AND (outcome IS NULL OR closes = ?) ORDER BY round, client"""
    clients: dict[int, list[int]] = {}
    for round, client in database.execute(query, (first, closed, number)):
        clients.setdefault(round, []).append(client)
    for round, theirs in clients.items():
        (places,) = database.execute("SELECT count(*) FROM participation WHERE round = ?", (round,)).fetchone()
        row = database.execute("SELECT state, sha256 FROM rounds WHERE round = ?", (round - 1,)).fetchone()
        if round > 1 and (row is None or row[0] is None):
            raise RunError(f"{path} has no state after round {round - 1}; expected it, as tasks of round {round} wait")
        state = state_file.load(arrays_file(path, round - 1), json.loads(row[0]), row[1], still) if round > 1 else None
        yield EarlierRound(round, tuple(theirs), places, state)

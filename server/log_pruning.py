"""The pruning of the database: of old rounds the total metrics are kept, and not the metrics of each client.

Who took part in a round stays, as a replay needs it, and what became of every reply. Only lines for people lose detail.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

KEPT = 1000  # rounds with all of their metrics
BY_CLIENT = ("clients",)  # of a line


def prune(database: sqlite3.Connection, round: int) -> None:
    """Moves a closed round to those that are long past; nothing happens if it is there, or never was."""
    row = database.execute("SELECT deadline, candidates, line, bundle FROM rounds WHERE round = ?", (round,)).fetchone()
    if row is None:
        return
    log_record = {name: value for name, value in json.loads(row[2]).items() if name not in BY_CLIENT}
    bundle = None if row[3] is None else {kind: _totals(scores) for kind, scores in json.loads(row[3]).items()}
    database.execute("INSERT INTO past VALUES (?, ?, ?, ?, ?)", (round, *row[:2], _json(log_record), _json(bundle)))
    database.execute("DELETE FROM rounds WHERE round = ?", (round,))


def _totals(scores: dict[str, Any]) -> dict[str, Any]:
    """Of a kind of accuracy. Only lists are by client; the common test set's numbers go by the same names."""
    return {name: value for name, value in scores.items() if not isinstance(value, list)}


def _json(values: dict[str, Any] | None) -> str | None:
    return None if values is None else json.dumps(values, allow_nan=False)

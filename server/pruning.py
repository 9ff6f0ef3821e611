"""What the database keeps of rounds long past: their metrics in total, no longer client by client.

Who took part in a round stays, as a replay needs it, and what became of every reply. Only lines for people lose detail.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

KEPT = 1000  # rounds with all of their metrics
BY_CLIENT = ("clients",)  # of a line


def prune(database: sqlite3.Connection, round: int) -> None:
    """Takes the details from a round's metrics and evaluation; nothing happens where there are none (any more)."""
    row = database.execute("SELECT line, bundle FROM rounds WHERE round = ?", (round,)).fetchone()
    if row is None or row[0] is None:
        return
    line = {name: value for name, value in json.loads(row[0]).items() if name not in BY_CLIENT}
    bundle = None if row[1] is None else {kind: _totals(scores) for kind, scores in json.loads(row[1]).items()}
    database.execute("UPDATE rounds SET line = ?, bundle = ? WHERE round = ?", (_json(line), _json(bundle), round))


def _totals(scores: dict[str, Any]) -> dict[str, Any]:
    """Of a kind of accuracy. Only lists are by client; the common test set's numbers go by the same names."""
    return {name: value for name, value in scores.items() if not isinstance(value, list)}


def _json(values: dict[str, Any] | None) -> str | None:
    return None if values is None else json.dumps(values, allow_nan=False)

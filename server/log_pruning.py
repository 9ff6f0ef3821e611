"""The pruning of the database: for old rounds it keeps the total metrics, and not the metrics of each client.

The clients of a round stay, as a replay needs them, and so does the verdict on every reply. Only lines for people lose
detail.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from edgefl.methods.rounds.adaptation import ADAPTATION

KEPT = 1000  # number of rounds that keep all of their metrics
BY_CLIENT = ("clients", ADAPTATION)  # parts of the metrics that are by client


def prune(database: sqlite3.Connection, round: int) -> None:
    """Move a closed round to the old rounds. If it is not among the recent rounds, nothing happens."""
    row = database.execute("SELECT deadline, candidates, line, bundle FROM rounds WHERE round = ?", (round,)).fetchone()
    if row is None:
        return
    log_record = {name: value for name, value in json.loads(row[2]).items() if name not in BY_CLIENT}
    bundle = None if row[3] is None else {kind: _totals(scores) for kind, scores in json.loads(row[3]).items()}
    database.execute("INSERT INTO past VALUES (?, ?, ?, ?, ?)", (round, *row[:2], _json(log_record), _json(bundle)))
    database.execute("DELETE FROM rounds WHERE round = ?", (round,))


def forget_state(database: sqlite3.Connection, round: int) -> None:
    """Forget the method's state after a round, whose arrays are not kept."""
    database.execute("UPDATE rounds SET state = NULL, sha256 = NULL WHERE round = ?", (round,))


def _totals(scores: dict[str, Any]) -> dict[str, Any]:
    """Return the totals of a kind of accuracy. Only lists are by client."""
    return {name: value for name, value in scores.items() if not isinstance(value, list)}


def _json(values: dict[str, Any] | None) -> str | None:
    return None if values is None else json.dumps(values, allow_nan=False)

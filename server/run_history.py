"""The records of a served run, read during the run or after it, for status, report and replay. Nothing is written.

Every function opens the database, reads one snapshot and closes it. They raise RunError if there is no served run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from edgefl.errors import RunError
from edgefl.methods.task import State
from edgefl.server import directory_check
from edgefl.server.directory_check import checked, damaged
from edgefl.server.events import Traffic
from edgefl.server.run_progress import Progress
from edgefl.server.schema import DATABASE, open_for_reading
from edgefl.server.store import last_closed, load_progress

ATTEMPTS = 100  # attempts to read a file that the server may have removed after we read the database


def is_served(path: Path) -> bool:
    """Return whether the directory holds a served run."""
    return (path / DATABASE).exists()


def run_id(path: Path) -> str:
    """Return the name by which devices know the run."""
    with snapshot(path) as database:
        return directory_check.run_id(database)


def metrics(path: Path, after: int = 0) -> list[dict[str, Any]]:
    """Return the metrics of each closed round after the round `after`, as simulate writes them.

    An evaluation is among the metrics once there is one.
    """
    query = "SELECT line, bundle FROM logged WHERE round > ? ORDER BY round"
    with snapshot(path) as database:
        rows = database.execute(query, (after,)).fetchall()
    return [
        {**json.loads(log_record), **({} if bundle is None else {"evaluation": json.loads(bundle)})}
        for log_record, bundle in rows
    ]


def traffic(path: Path) -> list[Traffic]:
    """Return the bytes that the server counted at its sockets, by round."""
    with snapshot(path) as database:
        return [Traffic(*row) for row in database.execute("SELECT * FROM traffic ORDER BY round")]


def progress(path: Path) -> Progress:
    """Return the progress of the run: clients, rounds, and the verdict on every reply. It checks all of run.db for
    damage.
    """
    for _ in range(ATTEMPTS):
        with checked(path) as database:
            try:
                return load_progress(database, path)
            except RunError:
                if not _has_moved(path, last_closed(database)):
                    raise
    raise RunError(f"{path} closes rounds faster than they can be read; expected no new round during one read")


def final_state(path: Path) -> State:
    """Return the method's state after the last closed round. Raises RunError if no round is closed."""
    state = progress(path).state
    if state is None:
        raise RunError(f"{path} has no closed round; expected at least one")
    return state


def _has_moved(path: Path, round: int) -> bool:
    """Return whether a later round than this has been closed."""
    with snapshot(path) as database:
        return last_closed(database) > round


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database as of its last commit, for reading."""
    with closing(open_for_reading(path)) as database:
        try:
            database.execute("BEGIN")
            yield database
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise damaged(path, error) from None

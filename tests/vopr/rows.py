"""The rows of run.db as a digest, which shows a server that goes on with other rows after a bit has changed."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from edgefl.server.schema import DATABASE, LOG


def rows_of(run: Path) -> str | None:
    """Return the digest of the rows of a run that no process serves. Return None if nobody can read them."""
    if not (run / DATABASE).exists():
        return None
    with tempfile.TemporaryDirectory(prefix="vopr-rows-") as folder:  # SQLite would change the files that it opens
        for name in (DATABASE, LOG):
            if (run / name).exists():
                shutil.copy(run / name, folder)
        try:
            with closing(sqlite3.connect(Path(folder) / DATABASE)) as database:
                return digest(database)
        except sqlite3.DatabaseError:
            return None


def digest(database: sqlite3.Connection) -> str:
    """Return the digest of all rows of all tables."""
    ask = sqlite3.Connection.execute  # no call of the server
    found = hashlib.sha256()
    for (table,) in ask(database, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        found.update(repr((table, ask(database, f"SELECT * FROM {table}").fetchall())).encode())
    return found.hexdigest()

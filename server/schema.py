"""The tables of run.db, and how it is opened: for the one process that runs the server, or for reading beside it.

A row of `rounds` without `done` is the open round; `replies` are its replies and nobody else's.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from edgefl.errors import RunError

DATABASE = "run.db"
VERSION = 4  # of the tables; in the file's user_version

TABLES = """
CREATE TABLE clients (
    client INTEGER PRIMARY KEY,
    capacity REAL NOT NULL,
    token BLOB NOT NULL  -- of a device that was given any free id, or empty
);
CREATE TABLE makers (
    client INTEGER,
    maker TEXT,     -- the version and the kernels that its device trained with
    PRIMARY KEY (client, maker)
) WITHOUT ROWID;
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY,
    deadline REAL,    -- seconds after which it is closed; NULL: never
    candidates BLOB,  -- whom its clients were chosen among (candidates.py); NULL: everybody
    done INTEGER,   -- 1 if no round follows; NULL while the round is open
    state TEXT,     -- plain values of the method's state after it, as JSON, kept for the last closed round
    line TEXT,      -- its metrics, as JSON
    bundle TEXT     -- its evaluation, as JSON
);
CREATE TABLE past (  -- rounds long closed, without what is by client (pruning.py); a table of its own, so that what
    round INTEGER PRIMARY KEY,  -- they were before leaves whole pages free for new ones
    deadline REAL,
    candidates BLOB,
    line TEXT,
    bundle TEXT
);
CREATE VIEW logged AS  -- of every round, what may be in either
    SELECT round, deadline, candidates, line, bundle FROM past UNION ALL
    SELECT round, deadline, candidates, line, bundle FROM rounds WHERE done IS NOT NULL;
CREATE TABLE participation (
    round INTEGER,
    client INTEGER,
    outcome TEXT,   -- accepted, late or refused; NULL: no reply has come
    reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (round, client)
) WITHOUT ROWID;
CREATE TABLE replies (
    client INTEGER PRIMARY KEY,
    message BLOB NOT NULL
);
CREATE TABLE traffic (
    round INTEGER PRIMARY KEY,
    sent INTEGER NOT NULL,
    received INTEGER NOT NULL,
    sent_headers INTEGER NOT NULL,
    received_headers INTEGER NOT NULL
);
"""


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """The database, made if there is none; a commit is on the disk when it returns. Any thread may use it, one at a
    time.

    Raises  RunError if the file is no database of this version.
    """
    file = folder / DATABASE
    try:
        database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if database.execute("PRAGMA user_version").fetchone() == (0,):
            database.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    except sqlite3.Error as error:
        raise RunError(f"{file} cannot be opened ({error}); expected the database of a served run") from None
    return _checked(database, file)


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """The database as of its last commit. Raises RunError if there is none of this version."""
    file = folder / DATABASE
    try:
        database = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        return _checked(database, file)
    except sqlite3.Error as error:
        raise RunError(f"{file} cannot be read ({error}); expected the database of a served run") from None


def _checked(database: sqlite3.Connection, file: Path) -> sqlite3.Connection:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        database.close()
        raise RunError(f"{file} has tables of version {version}; expected {VERSION}")
    return database

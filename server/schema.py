"""The tables of run.db, and functions that make and open it, for the one process that runs the server or for readers.

A row of `rounds` without `done` is the open round, and `replies` has only its replies. `run` has one row.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from edgefl.errors import RunError
from edgefl.server.row_digest import digest
from edgefl.system.durable_files import sync

DATABASE = "run.db"
LOG = "run.db-wal"  # SQLite's log of commits that are not in run.db yet. A server that ends by itself removes it
VERSION = 4  # version of the tables, kept in the file's user_version
LAST_READERS = {1: "9562d322", 2: "e6d57bf3", 3: "22a7a129"}  # version -> the last commit that reads and writes it

TABLES = """
CREATE TABLE run (
    id TEXT NOT NULL,         -- the name that devices know it by
    settings TEXT NOT NULL,   -- SHA-256 of the settings in run.json, or empty
    commits INTEGER NOT NULL,
    digest TEXT NOT NULL      -- of all rows (row_digest.py)
);
CREATE TABLE clients (
    client INTEGER PRIMARY KEY,
    capacity REAL NOT NULL,
    secret BLOB NOT NULL,  -- that its device proves in a run without keys, or empty
    life BLOB NOT NULL,    -- of its device's directory, the last that was heard of
    examples INTEGER       -- that it has for training, as it declared
);
CREATE TABLE losses (
    client INTEGER,
    after INTEGER,  -- the client has lost what it kept after this round, and somebody has accepted that:
    kept INTEGER NOT NULL,  -- it goes on from what it kept after this one, 0 for nothing
    PRIMARY KEY (client, after)
) WITHOUT ROWID;
CREATE TABLE makers (
    client INTEGER,
    maker TEXT,     -- the version and the kernels that its device trained with
    PRIMARY KEY (client, maker)
) WITHOUT ROWID;
CREATE TABLE paces (  -- of devices, as they have measured it (methods/throughput.py); not in databases from before
    client INTEGER,
    since INTEGER,  -- the round from which plans follow it
    still_s REAL NOT NULL,
    mac_s REAL NOT NULL,
    step_s REAL NOT NULL,
    round_s REAL NOT NULL,
    memory INTEGER,
    examples INTEGER NOT NULL,
    PRIMARY KEY (client, since)
) WITHOUT ROWID;
CREATE TABLE refusals (  -- of clients that take no part until their devices come back; not in databases from before
    client INTEGER PRIMARY KEY,
    reason TEXT NOT NULL
);
CREATE TABLE removed (  -- clients that the operator has removed; not in databases from before, like the next two
    client INTEGER PRIMARY KEY,
    reason TEXT NOT NULL
);
CREATE TABLE tags (  -- of clients, as their devices have told them last
    client INTEGER,
    name TEXT,
    value TEXT NOT NULL,
    PRIMARY KEY (client, name)
) WITHOUT ROWID;
CREATE TABLE commands (  -- of the operator, in the order in which they were carried out
    place INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    given REAL NOT NULL,     -- seconds since 1970
    round INTEGER NOT NULL,  -- the last closed round at that time
    words TEXT NOT NULL      -- as JSON
);
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY,
    deadline REAL,    -- seconds after which it is closed; NULL: never
    candidates BLOB,  -- whom its clients were chosen among (client_bitmap.py); NULL: everybody
    done INTEGER,   -- 1 if no round follows; NULL while the round is open
    state TEXT,     -- plain values of the method's state after it, as JSON; like sha256 for the last two closed rounds
    sha256 TEXT,    -- of the file of its arrays
    line TEXT,      -- its metrics, as JSON
    bundle TEXT     -- its evaluation, as JSON
);
CREATE TABLE past (  -- rounds long closed, without what is by client (log_pruning.py); a table of its own, so that what
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
    outcome TEXT,   -- accepted, late, refused, masked or not-opened; NULL: no reply has come
    reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (round, client)
) WITHOUT ROWID;
CREATE TABLE closes (  -- of replies that a later round than their own takes in; not in databases from before
    round INTEGER,
    client INTEGER,
    closes INTEGER NOT NULL,  -- the round that takes the reply in
    PRIMARY KEY (round, client)
) WITHOUT ROWID;
CREATE TABLE replies (
    client INTEGER PRIMARY KEY,
    crc32 INTEGER NOT NULL,  -- of the message; before it, so that a reply can be removed without being read
    message BLOB NOT NULL
);
CREATE TABLE group_events (  -- of the open round's groups (events.GroupEvent); not in databases from before
    place INTEGER PRIMARY KEY,
    round INTEGER NOT NULL,
    draw TEXT NOT NULL,
    kind TEXT NOT NULL,
    client INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,  -- of the data, which do not count in the digest of all rows
    data BLOB NOT NULL
);
CREATE TABLE traffic (
    round INTEGER PRIMARY KEY,
    sent INTEGER NOT NULL,
    received INTEGER NOT NULL,
    sent_headers INTEGER NOT NULL,
    received_headers INTEGER NOT NULL
);
"""


def create(folder: Path, run: str, settings: str) -> None:
    """Make the database of a run without clients or rounds. It appears whole or not at all. Raises RunError."""
    temporary = folder / f".{DATABASE}.tmp"
    try:
        for left in folder.glob(f"{temporary.name}*"):  # files that a crash has left
            left.unlink()
        with closing(sqlite3.connect(temporary, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = MEMORY")  # a crash may leave anything in a temporary file
            database.execute("PRAGMA synchronous = OFF")
            database.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
            database.execute("INSERT INTO run VALUES (?, ?, 0, '')", (run, settings))
            database.execute("UPDATE run SET digest = ?", (digest(database),))
            database.execute("PRAGMA journal_mode = WAL")  # set late, because a full disk could leave a log behind
        sync(temporary)
        os.replace(temporary, folder / DATABASE)
        sync(folder)
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"{folder / DATABASE} cannot be made ({error})") from None


def has_table(database: sqlite3.Connection, name: str) -> bool:
    """Return whether the run has this table, which runs of an earlier version lack."""
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone())


def open_for_writing(folder: Path) -> sqlite3.Connection:
    """Open the database for writing. A commit is on the disk when it returns. Any thread may use it, one at a time.

    Raises  RunError if the file is not a database of this version.
    """
    file = folder / DATABASE
    try:
        database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        return _checked(database, file)
    except sqlite3.Error as error:
        raise RunError(f"{file} cannot be opened ({error}); expected the database of a served run") from None


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """Open the database as of its last commit, for reading. If it has no log, nothing is written into the folder.

    Raises  RunError if the folder has no database of this version.
    """
    file = folder / DATABASE
    how = "mode=ro" if (folder / LOG).exists() else "immutable=1"
    if not file.exists() or not file.stat().st_size:  # SQLite takes an empty file for new, and removes its log
        raise RunError(f"{file} is {'empty' if file.exists() else 'missing'}; expected the database of a served run")
    try:
        database = sqlite3.connect(f"{file.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
        return _checked(database, file)
    except sqlite3.Error as error:
        raise RunError(f"{file} cannot be read ({error}); expected the database of a served run") from None


def _checked(database: sqlite3.Connection, file: Path) -> sqlite3.Connection:
    try:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise RunError(f"{file} has tables of version {version}; expected {VERSION}{_cure(version)}")
    except BaseException:
        database.close()
        raise
    return database


def _cure(version: int) -> str:
    """Return the end of a sentence: which edgefl reads tables of another version, and what to do."""
    if version in LAST_READERS:
        return (
            ": an edgefl before 22 November 2026 made the run, and tables are not migrated; finish or export the run"
            f" with edgefl of commit {LAST_READERS[version]}, or begin a new run with the settings of its run.json"
        )
    return ": a newer edgefl made the run; update edgefl here" if version > VERSION else ""

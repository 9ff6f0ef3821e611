"""The digest of run.db: kept up by every change, and the same however the rows came about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edgefl.server.events import ProvenanceRecorded
from edgefl.server.row_digest import Account, check_content, digest, last_commit
from edgefl.server.store import Store
from tests.server.stored import run


def test_every_batch_keeps_it_up(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number, batch in enumerate([*run(4), [ProvenanceRecorded(0, "one"), ProvenanceRecorded(0, "one")]], start=1):
        store.save(batch)
        with closing(sqlite3.connect(tmp_path / "run.db")) as database:
            assert check_content(database).number == number
    store.close()


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """Yield a database with a row of `run`, and a table of every kind of column."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.execute("CREATE TABLE run (id TEXT, settings TEXT, commits INTEGER, digest TEXT)")
    made.execute("CREATE TABLE kept (a INTEGER PRIMARY KEY, b REAL, c BLOB)")
    made.execute("INSERT INTO run VALUES ('one', '', 0, '')")
    made.execute("UPDATE run SET digest = ?", (digest(made),))
    yield made
    made.close()


def test_rows_that_are_replaced_changed_or_deleted_are_taken_off(database: sqlite3.Connection) -> None:
    empty, account = digest(database), Account(database)
    for sql in (
        "INSERT INTO kept VALUES (1, 2, x'00')",
        "INSERT OR IGNORE INTO kept VALUES (1, 9, NULL)",
        "INSERT OR REPLACE INTO kept VALUES (1, 1e300, NULL)",
        "INSERT INTO kept (b) VALUES (7), (-0.0)",
        "UPDATE kept SET b = b + 1, c = x'01'",
        "DELETE FROM kept",
    ):
        account.begin()
        database.execute(sql)
        commit = account.end()
        assert commit == last_commit(database) == check_content(database)
    database.execute("UPDATE run SET commits = 0")
    assert digest(database) == empty


def test_another_table_changes_the_digest(database: sqlite3.Connection) -> None:
    before = digest(database)
    database.execute("CREATE TABLE more (a INTEGER)")
    assert digest(database) != before


def test_a_transaction_that_was_rolled_back_does_not_count(database: sqlite3.Connection) -> None:
    account = Account(database)
    for end in ("ROLLBACK", "COMMIT"):
        database.execute("BEGIN")
        account.begin()
        database.execute("INSERT INTO kept (b) VALUES (?)", (len(end),))
        account.end()
        database.execute(end)
    assert check_content(database).number == 1
    assert database.execute("SELECT b FROM kept").fetchall() == [(6.0,)]


def test_a_change_past_the_account_is_noticed(database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO kept (b) VALUES (1)")
    with pytest.raises(ValueError, match="the digest of its rows is not the digest of commit 0"):
        check_content(database)

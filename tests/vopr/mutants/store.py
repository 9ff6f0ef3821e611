"""Mistakes in the server's store: commits, files of arrays, and the checks when a run is opened."""

from __future__ import annotations

from tests.vopr.mutants.rows import row

STORE, SCHEMA, COMMIT = "server/store.py", "server/schema.py", "server/last_commit.py"
CHECK, DIGEST = "server/directory_check.py", "server/row_digest.py"

MUTANTS = (
    row("commit-unsynced", SCHEMA, "synchronous = FULL", "synchronous = NORMAL", "a commit is not synced"),
    row("commit-never-synced", SCHEMA, "synchronous = FULL", "synchronous = OFF", "SQLite never syncs"),
    row("database-unsynced", SCHEMA, "        sync(temporary)\n", "", "a new database is renamed without fsync"),
    row(
        "log-unsynced",
        STORE,
        "for file in (self.path / DATABASE, self.path / LOG, self.path):",
        "for file in (self.path / DATABASE, self.path):",
        "commits that a killed server has left in the page cache count as durable",
    ),
    row(
        "arrays-after-commit",
        STORE,
        "            for round, arrays in closed.items():\n"
        "                write_atomically(arrays_file(self.path, round), arrays)\n"
        "            self._commit(records, {round: sha256(arrays) for round, arrays in closed.items()})\n",
        "            self._commit(records, {round: sha256(arrays) for round, arrays in closed.items()})\n"
        "            for round, arrays in closed.items():\n"
        "                write_atomically(arrays_file(self.path, round), arrays)\n",
        "a round is closed before its arrays are on the disk",
    ),
    row(
        "last-commit-behind",
        COMMIT,
        "  # noqa: SIM115 (closed by close)\n        self.write(commit)\n",
        "  # noqa: SIM115 (closed by close)\n",
        "a server goes on from a commit that last_commit does not have",
    ),
    row(
        "last-commit-first",
        STORE,
        '            self._database.execute("COMMIT")\n',
        '            self._last_commit.write(commit)\n            self._database.execute("COMMIT")\n',
        "last_commit is written before the commit",
    ),
    row(
        "replies-not-kept",
        STORE,
        '        if record.outcome in ("accepted", "refused"):',
        '        if record.outcome == "late":',
        "replies of the open round are lost in a crash",
    ),
    row("replies-stay", STORE, '        execute("DELETE FROM replies")\n', "", "replies of a closed round stay"),
    row(
        "old-commits-pass",
        CHECK,
        "if found.number < expected.number:",
        "if found.number < 0:",
        "a database that has lost commits is used",
    ),
    row("rows-unchecked", DIGEST, "if digest(database) != commit.digest:", "if False:", "damaged rows are used"),
    row(
        "arrays-unchecked",
        "edgefl/methods/rounds/state_file.py",
        "    if digest is not None:\n        check_sha256(file, digest)\n",
        "",
        "damaged parameters are served",
    ),
    row("account-goes-on", STORE, "            self._account.begin()\n", "", "a failed commit counts in the digest"),
    row(
        "no-rollback",
        STORE,
        '                self._database.execute("ROLLBACK")\n',
        "                pass\n",
        "a failed commit stays open",
    ),
    row(
        "secret-not-replaced",
        STORE,
        "        if record.secret:\n",
        "        if not record.secret:\n",
        "the secret of an accepted device is lost in a crash",
    ),
    row(
        "losses-not-kept",
        STORE,
        '        execute("INSERT OR REPLACE INTO losses VALUES (?, ?, ?)", (record.client, record.after, record.kept))',
        "        pass",
        "an accepted loss is lost in a crash",
    ),
    row(
        "pruned-early",
        STORE,
        "record.round - self._keep_rounds",
        "record.round - self._keep_rounds + 2",
        "the log drops what a run goes on from",
    ),
)

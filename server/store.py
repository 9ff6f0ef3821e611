"""The store of the server, which keeps what a crash must not lose: run.db, and the method's arrays as files.
coordinator.py gives the records their meaning, and schema.py has the tables.

    RUN/run.db                        clients, rounds, participation, replies of the open round, metrics
    RUN/last_commit                   number and digest of its last commit, written after it (last_commit.py)
    RUN/server/000010.safetensors     the method's arrays after round 10, written before the commit that closes it
    RUN/server/base.safetensors       the frozen parameters of these arrays, if there are any
    RUN/id                            the name by which devices know the run, as in run.db
    RUN/lock                          held by the process that serves the run

`save` commits a batch of records in one transaction. Before that, the arrays of a closed round are written to a
temporary file, synced and renamed to the round's number. They count once the transaction does. The arrays of the
previous round are kept, and older arrays are removed after the transaction. After any failure or crash, the run is in
the state after the last batch, and the same batch can be saved again. Opening a run changes nothing before the whole
run has been read and checked (directory_check.py).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from edgefl.errors import RunError
from edgefl.experiment.run_json import settings_digest
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.participation import TRAINED
from edgefl.methods.rounds.state_file import Read
from edgefl.methods.throughput import Throughput
from edgefl.protocol.wire import messages
from edgefl.protocol.wire.messages import Trained
from edgefl.server import client_bitmap, directory_check, group_log, log_pruning, membership_log, task_log
from edgefl.server.array_files import FOLDER, KEPT, arrays_file, check_newest, remove_superseded
from edgefl.server.events import (
    ClientStateLost,
    DeviceRefusal,
    DeviceReplaced,
    Enrolment,
    GroupEvent,
    ProvenanceRecorded,
    Record,
    ReplyJudged,
    RoundClosed,
    RoundEvaluated,
    RoundOpened,
    ThroughputRecorded,
    Traffic,
)
from edgefl.server.last_commit import LastCommit
from edgefl.server.member_records import ClientRemoved, OperatorCommand, TagsRecorded
from edgefl.server.row_digest import Account, last_commit
from edgefl.server.run_progress import Progress, Ruling
from edgefl.server.schema import DATABASE, LOG, create, has_table, open_for_writing
from edgefl.system.durable_files import lock, sha256, sync, sync_name, write_atomically

LOCK = "lock"
REPLY = messages.NUMBERS[Trained]
KEPT_IT = f"outcome IN {TRAINED}"  # the client kept what it had trained
RECENT = f"""  -- rulings of a client's last kept training and after it: verdict_log.py
    LEFT JOIN (SELECT client, max(round) AS kept FROM participation WHERE {KEPT_IT} GROUP BY client)
    USING (client) WHERE kept IS NULL OR round >= kept"""


class Store:
    """The durable state of a served run, for the one process that runs it. Any thread may use it, one at a time.

    run_id  the name by which devices know the run, drawn when it began
    states  contents of the files of the method's arrays
    kept    number of closed rounds whose arrays are kept
    """

    def __init__(self, path: Path, keep_rounds: int = log_pruning.KEPT) -> None:
        """Open the directory or begin a new one. If RunError is raised, nothing has been changed.

        Raises  RunError if it is in use, or if a file in it is missing, damaged or older than the others.
        """
        self.path, self._keep_rounds, self.kept = path, keep_rounds, KEPT
        self.states = state_file.StateFiles(path / FOLDER)
        path.mkdir(parents=True, exist_ok=True)
        self._lock = lock(path / LOCK)
        try:
            if directory_check.is_new(path):
                create(path, secrets.token_hex(8), settings_digest(path))
            sync_name(path)
            self.run_id = _check(path)
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        """Open the files for changes, after everything was found whole.

        A server that was killed may have left commits in the page cache alone. They are brought to the disk before
        anything follows from them.
        """
        try:
            (self.path / FOLDER).mkdir(exist_ok=True)
            for file in (self.path / DATABASE, self.path / LOG, self.path):  # the last makes the folder's name durable
                if file.exists():
                    sync(file)
            if not (self.path / directory_check.IDENTITY).exists():
                write_atomically(self.path / directory_check.IDENTITY, self.run_id.encode())
            self._database = open_for_writing(self.path)
            try:
                self._account = Account(self._database)
                self._last_commit = LastCommit(self.path, last_commit(self._database))
            except BaseException:
                self._database.close()  # SQLite holds the account, which holds the database
                raise
        except (OSError, sqlite3.Error) as error:
            raise RunError(f"{self.path} cannot be written ({error})") from None

    def close(self) -> None:
        """Close the store. Afterwards the directory can be copied, or another process can open it."""
        with suppress(sqlite3.Error):  # on a full disk the log stays next to the database, and nothing is lost
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._database.close()
        self._last_commit.close()
        self._lock.close()

    def load(self, which: str = "", max_staleness: int | None = None) -> Progress:
        """Return the progress of the run. Raises RunError if something is missing, corrupt or cannot be read.

        which          "" for all rulings, or RECENT for the recent ones, which need equal memory in a run of any length
        max_staleness  largest staleness in an asynchronous run, whose open tasks are loaded. None: rounds wait
        """
        try:
            found = load_progress(self._database, self.path, which, partial(state_file.load, still=self.states.still))
            self.kept = max(KEPT, (max_staleness or 0) + 1)
            return task_log.with_earlier(found, self._database, self.path, max_staleness, self.states.still)
        except sqlite3.Error as error:
            raise directory_check.damaged(self.path, error) from None

    def save(self, records: Sequence[Record]) -> None:
        """Make all of the records durable, in order, or none of them.

        Raises  RunError if the disk refuses. The same records can be saved again later.
        """
        ended = [record for record in records if isinstance(record, RoundClosed)]
        try:
            closed = {record.round: self.states.pack(record.state) for record in ended}
            for round, arrays in closed.items():
                write_atomically(arrays_file(self.path, round), arrays)
            self._commit(records, {round: sha256(arrays) for round, arrays in closed.items()})
            for round in closed:
                remove_superseded(self.path, round, self.kept)
        except (OSError, sqlite3.OperationalError) as error:
            raise RunError(f"{self.path} cannot be written ({error})") from None

    def _commit(self, records: Sequence[Record], digests: Mapping[int, str]) -> None:
        """Commit the records. `digests` has the SHA-256 of the arrays' file, by closed round."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._account.begin()
            for record in records:
                _write(self._database, record, digests)
                if isinstance(record, RoundClosed):
                    log_pruning.forget_state(self._database, record.round - self.kept)
                    log_pruning.prune(self._database, record.round - self._keep_rounds)
            commit = self._account.end()
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self._last_commit.write(commit)


def _check(path: Path) -> str:
    """Read the whole run, and return its id. Raises RunError naming the file that is not as it should be."""
    with directory_check.checked(path) as database:
        check_newest(path, load_progress(database, path, read=state_file.without_arrays).round)
        return directory_check.run_id(database)


def _write(database: sqlite3.Connection, record: Record, digests: Mapping[int, str]) -> None:
    """Add a record to the transaction. To write a record twice has the effect of writing it once."""
    if isinstance(record, GroupEvent):
        group_log.write(database, record)
    elif isinstance(record, DeviceRefusal | ClientRemoved | TagsRecorded | OperatorCommand):
        membership_log.write(database, record)
    elif isinstance(record, RoundOpened | ReplyJudged | RoundClosed | RoundEvaluated | Traffic):
        _write_of_round(database, record, digests)
    else:
        _write_of_client(database, record)


def _write_of_client(
    database: sqlite3.Connection,
    record: Enrolment | DeviceReplaced | ClientStateLost | ProvenanceRecorded | ThroughputRecorded,
) -> None:
    """Add to the transaction what one client's device has said, or has lost."""
    execute = database.execute
    if isinstance(record, Enrolment):
        enrolled = record.client, record.capacity, record.secret, record.life, record.examples
        execute("INSERT OR IGNORE INTO clients VALUES (?, ?, ?, ?, ?)", enrolled)
    elif isinstance(record, DeviceReplaced):
        execute("UPDATE clients SET life = ? WHERE client = ?", (record.life, record.client))
        if record.secret:
            execute("UPDATE clients SET secret = ? WHERE client = ?", (record.secret, record.client))
    elif isinstance(record, ClientStateLost):
        execute("INSERT OR REPLACE INTO losses VALUES (?, ?, ?)", (record.client, record.after, record.kept))
    elif isinstance(record, ProvenanceRecorded):
        execute("INSERT OR IGNORE INTO makers VALUES (?, ?)", (record.client, record.provenance))
    elif isinstance(record, ThroughputRecorded):
        execute(
            "INSERT OR IGNORE INTO paces VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (record.client, record.since, *record.throughput),
        )


def _write_of_round(
    database: sqlite3.Connection,
    record: RoundOpened | ReplyJudged | RoundClosed | RoundEvaluated | Traffic,
    digests: Mapping[int, str],
) -> None:
    """Add to the transaction what has happened in a round. `digests` has the SHA-256 of the arrays' file, by round."""
    execute = database.execute
    if isinstance(record, RoundOpened):
        among = None if record.candidates is None else client_bitmap.pack(record.candidates)
        begun = record.round, record.deadline_s, among
        execute("INSERT OR IGNORE INTO rounds (round, deadline, candidates) VALUES (?, ?, ?)", begun)
        planned = [(record.round, client) for client in record.clients]
        database.executemany("INSERT OR IGNORE INTO participation (round, client) VALUES (?, ?)", planned)
    elif isinstance(record, ReplyJudged):
        ruling = record.outcome, record.reason, record.round, record.client
        execute("UPDATE participation SET outcome = ?, reason = ? WHERE round = ? AND client = ?", ruling)
        task_log.write(database, record)
        if record.outcome in ("accepted", "refused"):
            message = messages.encode(record.message)
            execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (record.client, crc32(message), message))
    elif isinstance(record, RoundClosed):
        values = json.dumps(record.state.values)
        row = int(record.done), values, digests[record.round], _json(record.log_record), record.round
        execute("UPDATE rounds SET done = ?, state = ?, sha256 = ?, line = ? WHERE round = ?", row)
        execute("DELETE FROM replies")
        group_log.clear(database)
    elif isinstance(record, RoundEvaluated):
        execute("UPDATE rounds SET bundle = ? WHERE round = ?", (_json(record.bundle), record.round))
        if record.adaptation:
            (line,) = execute("SELECT line FROM rounds WHERE round = ?", (record.round,)).fetchone()
            added = _json({**json.loads(line), **record.adaptation})
            execute("UPDATE rounds SET line = ? WHERE round = ?", (added, record.round))
    elif isinstance(record, Traffic):
        execute("INSERT OR REPLACE INTO traffic VALUES (?, ?, ?, ?, ?)", astuple(record))


def _json(values: dict[str, Any]) -> str:
    """Return the values as JSON, which has no NaN. A missing number is None already."""
    return json.dumps(values, allow_nan=False)


def last_closed(database: sqlite3.Connection) -> int:
    """Return the last closed round, 0 before the first."""
    (round,) = database.execute("SELECT max(round) FROM rounds WHERE done IS NOT NULL").fetchone()
    return round or 0


def load_progress(database: sqlite3.Connection, path: Path, which: str = "", read: Read = state_file.load) -> Progress:
    """Load the progress of a run from one snapshot of its database. Raises RunError if something is missing or corrupt.

    which  as for Store.load
    read   reads the state after the last closed round
    """
    round = last_closed(database)
    closed = database.execute("SELECT state, sha256, done FROM rounds WHERE round = ?", (round,)).fetchone()
    values, digest, done = closed or (None, None, 0)
    (scored,) = database.execute("SELECT max(round) FROM logged WHERE bundle IS NOT NULL").fetchone()
    is_open = database.execute("SELECT 1 FROM rounds WHERE round = ?", (round + 1,)).fetchone()
    rows = database.execute(f"SELECT round, client, outcome, reason FROM participation {which} ORDER BY round, client")
    rulings = {(r, client): None if outcome is None else Ruling(outcome, reason) for r, client, outcome, reason in rows}
    return Progress(
        capacities=dict(database.execute("SELECT client, capacity FROM clients ORDER BY client")),
        round=round,
        state=None if values is None else read(arrays_file(path, round), json.loads(values), digest),
        done=bool(done),
        scored=scored or 0,
        opened=tuple(client for r, client in rulings if r == round + 1) if is_open else None,
        deadline_s=_last_deadline(database),
        candidates=_candidates(database),
        answers=tuple(_answers(database, round + 1, rulings)),
        closes=task_log.closes(database),
        group_events=tuple(group_log.events(database)),
        rulings=rulings,
        trained=_trained(database),
        secrets=dict(database.execute("SELECT client, secret FROM clients WHERE secret != x''")),
        lives=dict(database.execute("SELECT client, life FROM clients")),
        losses={(client, after): kept for client, after, kept in database.execute("SELECT * FROM losses")},
        declared=dict(database.execute("SELECT client, examples FROM clients WHERE examples IS NOT NULL")),
        provenances=tuple(database.execute("SELECT client, maker FROM makers ORDER BY client, maker")),
        throughputs=_throughputs(database),
        refusals=membership_log.refusals(database),
        removed=membership_log.removed(database),
        tags=membership_log.tags(database),
        commands=membership_log.commands(database),
        keeps_commands=membership_log.is_kept(database),
    )


def _throughputs(database: sqlite3.Connection) -> dict[tuple[int, int], Throughput]:
    """Return the throughputs of the run. A run of an earlier version has no table for them, and the result is empty."""
    if not has_table(database, "paces"):
        return {}
    rows = database.execute("SELECT * FROM paces ORDER BY client, since")
    return {(client, since): Throughput(*throughput) for client, since, *throughput in rows}


def _last_deadline(database: sqlite3.Connection) -> float | None:
    """Return the deadline of the last round that has begun."""
    found = database.execute("SELECT deadline FROM rounds ORDER BY round DESC LIMIT 1").fetchone()
    return found[0] if found else None


def _candidates(database: sqlite3.Connection) -> client_bitmap.PackedSets:
    every = "SELECT round, candidates FROM logged UNION ALL SELECT round, candidates FROM rounds WHERE done IS NULL"
    rows = database.execute(f"SELECT * FROM ({every}) WHERE candidates IS NOT NULL ORDER BY round")
    return client_bitmap.PackedSets(dict(rows))


def _trained(database: sqlite3.Connection) -> dict[int, int]:
    """Return a bit for each round and client. The rows themselves would take a hundred times as much memory."""
    found: dict[int, int] = {}
    for client, round in database.execute(f"SELECT client, round FROM participation WHERE {KEPT_IT}"):
        found[client] = found.get(client, 0) | 1 << round
    return found


def _answers(
    database: sqlite3.Connection, round: int, rulings: dict[tuple[int, int], Ruling | None]
) -> list[ReplyJudged]:
    """Return the judged replies that the round after the last closed one takes in, or may take in."""
    found = []
    for client, data, expected in database.execute("SELECT client, message, crc32 FROM replies ORDER BY client"):
        if crc32(data) != expected:
            raise ValueError(f"the reply of client {client} for round {round} does not have its CRC-32")
        message = messages.decode(REPLY, data)
        assert isinstance(message, Trained)
        ruling = rulings[message.round, client]
        assert ruling is not None
        found.append(ReplyJudged(message.round, client, ruling.outcome, ruling.reason, message))
    return found

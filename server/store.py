"""What a crash of the server may not lose: run.db beside the method's arrays as files. Not what it means
(coordinator.py), nor the tables (schema.py).

    RUN/run.db                        clients, rounds, participation, replies of the open round, metrics
    RUN/server/000010.safetensors     the method's arrays after round 10, written before the commit that closes it
    RUN/lock                          held by the process that serves the run

`save` commits a batch of records in one transaction. A closed round's arrays are written under its number, temp, fsync
and rename, before that; they count once the transaction does, and what they supersede is removed after it. Whatever
fails or crashes in between, the run is as after the last batch, and the same batch can be saved again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from edgefl.durable import lock, sync, write_atomically
from edgefl.errors import RunError
from edgefl.rounds import state_file
from edgefl.server import candidates, pruning
from edgefl.server.events import Closed, Enrolment, Judged, Made, Opened, Record, Scored, Traffic
from edgefl.server.progress import Progress, Ruling
from edgefl.server.schema import open_for_writing
from edgefl.wire import messages
from edgefl.wire.messages import Trained

LOCK = "lock"
REPLY = messages.NUMBERS[Trained]
KEPT_IT = "outcome IN ('accepted', 'late')"  # the client what it had trained
RECENT = f"""  -- rulings of a client's last kept training and after it: what a device may still ask for (rulings.py)
    LEFT JOIN (SELECT client, max(round) AS kept FROM participation WHERE {KEPT_IT} GROUP BY client)
    USING (client) WHERE kept IS NULL OR round >= kept"""


class Store:
    """The durable state of a served run, for the one process that runs it. Any thread may use it, one at a time."""

    def __init__(self, path: Path, keep_rounds: int = pruning.KEPT) -> None:
        """Opens the directory or begins a new one. Raises RunError if it is in use, or damaged."""
        self.path, self._keep_rounds = path, keep_rounds
        (path / "server").mkdir(parents=True, exist_ok=True)
        self._lock = lock(path / LOCK)
        try:
            self._database = open_for_writing(path)
            sync(path)
            sync(path.parent)
            _remove_superseded(path, last_closed(self._database))
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        self._database.close()
        self._lock.close()

    def load(self, which: str = "") -> Progress:
        """How far the run has got. Raises RunError if something is missing or corrupt.

        which  of the rulings: all, or RECENT ones, in which a run of any length needs the same memory
        """
        return load_progress(self._database, self.path, which)

    def save(self, records: Sequence[Record]) -> None:
        """Makes all of the records durable, in order, or none of them.

        Raises  RunError if the disk refuses; the same records can be saved again later.
        """
        closed = [record for record in records if isinstance(record, Closed)]
        try:
            for record in closed:
                write_atomically(_arrays_file(self.path, record.round), state_file.pack(record.state))
            self._commit(records)
            for record in closed:
                _remove_superseded(self.path, record.round)
        except (OSError, sqlite3.OperationalError) as error:
            raise RunError(f"{self.path} cannot be written ({error})") from None

    def _commit(self, records: Sequence[Record]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for record in records:
                _write(self._database, record)
                if isinstance(record, Closed):
                    pruning.prune(self._database, record.round - self._keep_rounds)
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


def _write(database: sqlite3.Connection, record: Record) -> None:
    """Adds a record to the transaction. To write one twice is to write it once."""
    execute = database.execute
    if isinstance(record, Enrolment):
        execute("INSERT OR IGNORE INTO clients VALUES (?, ?, ?)", (record.client, record.capacity, record.token))
    elif isinstance(record, Made):
        execute("INSERT OR IGNORE INTO makers VALUES (?, ?)", (record.client, record.maker))
    elif isinstance(record, Opened):
        among = None if record.candidates is None else candidates.pack(record.candidates)
        begun = record.round, record.deadline_s, among
        execute("INSERT OR IGNORE INTO rounds (round, deadline, candidates) VALUES (?, ?, ?)", begun)
        planned = [(record.round, client) for client in record.clients]
        database.executemany("INSERT OR IGNORE INTO participation (round, client) VALUES (?, ?)", planned)
    elif isinstance(record, Judged):
        ruling = record.outcome, record.reason, record.round, record.client
        execute("UPDATE participation SET outcome = ?, reason = ? WHERE round = ? AND client = ?", ruling)
        if record.outcome != "late":
            execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (record.client, messages.encode(record.message)))
    elif isinstance(record, Closed):
        execute("UPDATE rounds SET state = NULL WHERE round < ?", (record.round,))
        row = int(record.done), json.dumps(record.state.values), _line(record.line), record.round
        execute("UPDATE rounds SET done = ?, state = ?, line = ? WHERE round = ?", row)
        execute("DELETE FROM replies")
    elif isinstance(record, Scored):
        execute("UPDATE rounds SET bundle = ? WHERE round = ?", (_line(record.bundle), record.round))
    elif isinstance(record, Traffic):
        execute("INSERT OR REPLACE INTO traffic VALUES (?, ?, ?, ?, ?)", astuple(record))


def _line(values: dict[str, Any]) -> str:
    """As JSON, which has no NaN: what may be none is None already."""
    return json.dumps(values, allow_nan=False)


def last_closed(database: sqlite3.Connection) -> int:
    """The last closed round, 0 if there is none."""
    (round,) = database.execute("SELECT max(round) FROM rounds WHERE done IS NOT NULL").fetchone()
    return round or 0


def load_progress(database: sqlite3.Connection, path: Path, which: str = "") -> Progress:
    """How far a run has got, from one snapshot of its database. Raises RunError if something is missing or corrupt.

    which  as for Store.load
    """
    round = last_closed(database)
    closed = database.execute("SELECT state, done FROM rounds WHERE round = ?", (round,)).fetchone()
    values, done = closed or (None, 0)
    (scored,) = database.execute("SELECT max(round) FROM logged WHERE bundle IS NOT NULL").fetchone()
    is_open = database.execute("SELECT 1 FROM rounds WHERE round = ?", (round + 1,)).fetchone()
    rows = database.execute(f"SELECT round, client, outcome, reason FROM participation {which} ORDER BY round, client")
    rulings = {(r, client): None if outcome is None else Ruling(outcome, reason) for r, client, outcome, reason in rows}
    return Progress(
        capacities=dict(database.execute("SELECT client, capacity FROM clients ORDER BY client")),
        round=round,
        state=None if values is None else state_file.load(_arrays_file(path, round), json.loads(values)),
        done=bool(done),
        scored=scored or 0,
        opened=tuple(client for r, client in rulings if r == round + 1) if is_open else None,
        deadline_s=_last_deadline(database),
        candidates=_candidates(database),
        answers=tuple(_answers(database, round + 1, rulings)),
        rulings=rulings,
        trained=_trained(database),
        tokens=dict(database.execute("SELECT token, client FROM clients WHERE token != x''")),
        makers=tuple(database.execute("SELECT client, maker FROM makers ORDER BY client, maker")),
    )


def _last_deadline(database: sqlite3.Connection) -> float | None:
    """Of the last round that has begun."""
    found = database.execute("SELECT deadline FROM rounds ORDER BY round DESC LIMIT 1").fetchone()
    return found[0] if found else None


def _candidates(database: sqlite3.Connection) -> dict[int, frozenset[int]]:
    every = "SELECT round, candidates FROM logged UNION ALL SELECT round, candidates FROM rounds WHERE done IS NULL"
    rows = database.execute(f"SELECT * FROM ({every}) WHERE candidates IS NOT NULL ORDER BY round")
    return {round: candidates.unpack(data) for round, data in rows}


def _trained(database: sqlite3.Connection) -> dict[int, int]:
    """A bit per round and client: the rows themselves would take a hundred times as much."""
    found: dict[int, int] = {}
    for client, round in database.execute(f"SELECT client, round FROM participation WHERE {KEPT_IT}"):
        found[client] = found.get(client, 0) | 1 << round
    return found


def _answers(database: sqlite3.Connection, round: int, rulings: dict[tuple[int, int], Ruling | None]) -> list[Judged]:
    """The judged replies of the open round."""
    found = []
    for client, data in database.execute("SELECT client, message FROM replies ORDER BY client"):
        message, ruling = messages.decode(REPLY, data), rulings[round, client]
        assert isinstance(message, Trained)
        assert ruling is not None
        found.append(Judged(round, client, ruling.outcome, ruling.reason, message))
    return found


def _arrays_file(path: Path, round: int) -> Path:
    return path / "server" / f"{round:06d}.safetensors"


def _remove_superseded(path: Path, round: int) -> None:
    """Removes the arrays of every other round than the last closed one, and what a crash left of writing some."""
    for file in (path / "server").iterdir():
        if file != _arrays_file(path, round):
            file.unlink()

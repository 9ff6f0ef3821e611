"""The run directory of a simulation, which keeps in plain files everything that a crash must not lose. The rounds are
run in round_loop.py.

    RUN/run.json                       the experiment: what is run, on which data, from which seed
    RUN/<method>/commit.json           the last committed round, and digests. This file alone decides what counts
    RUN/<method>/server/000010.safetensors          the server's arrays after round 10
    RUN/<method>/server/base.safetensors            the frozen parameters of these arrays, if there are any
    RUN/<method>/clients/0007/000004.safetensors    what client 7 keeps after round 4, private values as JSON metadata
    RUN/<method>/metrics.jsonl         one line per round
    RUN/<method>/lock                  held by the process that runs it, so that a second one is refused

Files are written under the tag of their round and never overwritten. A commit syncs them and the metrics to the disk,
replaces commit.json by one rename, and removes the superseded files. Opening a directory checks that all files of the
last commit exist, and removes all other files. So a process killed at any point resumes from its last commit and
repeats the rounds after it. A file from an earlier process is checked by its digest when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.numpy

from edgefl.errors import RunError
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.state_file import BASE, StateFiles, StoredClientState
from edgefl.methods.task import State
from edgefl.system.durable_files import (
    Piece,
    check_sha256,
    load_arrays,
    lock,
    read_json,
    sha256,
    sync,
    with_digest,
    write_atomically,
)

COMMIT = "commit.json"
METRICS = "metrics.jsonl"
LOCK = "lock"


@dataclass(frozen=True)
class Checkpoint:
    """The content of commit.json: the round, the server's plain values, and the round tag of every client's file."""

    round: int
    done: bool
    values: dict[str, Any]
    clients: dict[str, int]
    metrics_bytes: int
    digests: dict[str, str] = field(default_factory=dict)  # path of a file of arrays in the run -> SHA-256 of the file


NOTHING = Checkpoint(-1, False, {}, {}, 0)


class Journal:
    """The durable state of one method's run. Several threads may call `save_client_state`, one thread the other
    methods.

    committed  the last commit, whose round is -1 before the first commit
    states     contents of the files of the server's arrays
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "server").mkdir(parents=True, exist_ok=True)
        (path / "clients").mkdir(exist_ok=True)
        self._lock = lock(path / LOCK)
        sync(path.parent)
        self.committed = read_commit(path)
        self._tags = {int(client): tag for client, tag in self.committed.clients.items()}
        self._digests = {path / name: digest for name, digest in self.committed.digests.items()}
        self._unread = set(self._digests)  # files of an earlier process
        self._unsynced: set[Path] = set()
        try:
            self._check_committed()
            self._remove_uncommitted()
        except BaseException:
            self._lock.close()
            raise
        self.states = StateFiles(path / "server")
        self._metrics = open(path / METRICS, "ab")  # noqa: SIM115 (closed by close)

    def close(self) -> None:
        self._metrics.close()
        self._lock.close()

    def load_state(self) -> State:
        """Return the server's state as of the last commit. Raises RunError if its file is missing or corrupt."""
        file = self._server_file(self.committed.round)
        self._check_unread(file)
        return state_file.load(file, dict(self.committed.values), still=self.states.still)

    def tag(self, client: int) -> int | None:
        """Return the round under whose tag the client's state was saved, or None if the client keeps nothing."""
        return self._tags.get(client)

    def load_client_state(self, client: int) -> StoredClientState | None:
        """Return the state that a client keeps after its last training, or None if it has never trained. Raises
        RunError if its file is missing or corrupt.
        """
        tag = self._tags.get(client)
        if tag is None:
            return None
        file = self._client_file(client, tag)
        self._check_unread(file)
        return read_kept(file)

    def save_client_state(self, client: int, round: int, kept: StoredClientState) -> None:
        """Write what a client keeps under the tag of this round. The file is not durable before `commit`."""
        file = self._client_file(client, round)
        file.parent.mkdir(exist_ok=True)
        self._write(file, safetensors.numpy.save(kept.flat(), {"private": json.dumps(kept.private)}))
        superseded = self._client_file(client, self._tags.get(client, -1))
        if superseded in self._unsynced:
            self._unsynced.discard(superseded)
            superseded.unlink()
        self._unsynced.add(file)
        self._tags[client] = round

    def forget_client_state(self, client: int) -> None:
        """Forget what the client kept, because the client has lost it."""
        self._tags.pop(client, None)

    def log(self, log_record: dict[str, Any]) -> None:
        """Append one line to the metrics, which `commit` makes durable. Raises ValueError for NaN or infinity."""
        self._metrics.write(json.dumps(log_record, allow_nan=False).encode() + b"\n")

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Return every line logged so far."""
        self._metrics.flush()
        return read_metrics(self.path)

    def commit(self, round: int, state: State, done: bool = False) -> None:
        """Make everything up to and including `round` durable, in one step."""
        self._save_state(round, state)
        for file in self._unsynced:
            sync(file)
        for folder in {file.parent for file in self._unsynced} | {self.path / "clients", self.path / "server"}:
            sync(folder)
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        clients = {str(client): self._tags[client] for client in sorted(self._tags)}
        digests = {str(file.relative_to(self.path)): self._digests[file] for file in self._committed_files(round)}
        commit = Checkpoint(round, done, state.values, clients, self._metrics.tell(), digests)
        write_atomically(self.path / COMMIT, json.dumps(with_digest(asdict(commit)), indent=1).encode())
        self.committed = commit
        self._unsynced.clear()
        self._remove_uncommitted()

    def _save_state(self, round: int, state: State) -> None:
        file = self._server_file(round)
        self._write(file, self.states.pack(state))
        sync(file)

    def _write(self, file: Path, content: bytes | list[Piece]) -> None:
        with open(file, "wb") as opened:
            opened.writelines((content,) if isinstance(content, bytes) else content)
        self._digests[file] = sha256(content)
        self._unread.discard(file)

    def _check_unread(self, file: Path) -> None:
        """Raise RunError if the file is not as an earlier process wrote it."""
        if file in self._unread:
            check_sha256(file, self._digests[file])

    def _committed_files(self, round: int) -> list[Path]:
        """Return the files that a commit of this round names and that have a digest."""
        files = [self._server_file(round), *(self._client_file(client, tag) for client, tag in self._tags.items())]
        return sorted(file for file in files if file in self._digests)

    def _check_committed(self) -> None:
        """Raise RunError if a file that the last commit names is missing or too short. Nothing is removed before."""
        for file in self._digests:
            if not file.exists():
                raise RunError(f"{file} is missing; expected what {self.path / COMMIT} names")
        metrics = self.path / METRICS
        length = metrics.stat().st_size if metrics.exists() else 0
        if length < self.committed.metrics_bytes:
            raise RunError(
                f"{metrics} has {length} bytes; expected {self.committed.metrics_bytes}, as the last commit states"
            )

    def _remove_uncommitted(self) -> None:
        """Remove the files that the last commit does not name, and metrics written after it."""
        keep = {self._client_file(client, tag) for client, tag in self._tags.items()}
        for file in (self.path / "clients").glob("*/*"):
            if file not in keep:
                file.unlink()
        for file in (self.path / "server").glob("*"):
            if file not in (self._server_file(self.committed.round), self.path / "server" / BASE):
                file.unlink()
        metrics = self.path / METRICS
        if metrics.exists() and metrics.stat().st_size > self.committed.metrics_bytes:
            os.truncate(metrics, self.committed.metrics_bytes)

    def _server_file(self, round: int) -> Path:
        return server_file(self.path, round)

    def _client_file(self, client: int, round: int) -> Path:
        return client_file(self.path, client, round)


def server_file(path: Path, round: int) -> Path:
    """Return the file of the server's arrays after that round, in the directory of a method."""
    return path / "server" / f"{round:06d}.safetensors"


def client_file(path: Path, client: int, round: int) -> Path:
    """Return the file of a client's state after that round, in the directory of a method."""
    return path / "clients" / f"{client:04d}" / f"{round:06d}.safetensors"


def read_kept(file: Path) -> StoredClientState:
    """Read the content of a client's file. Raises RunError if the file is missing or corrupt."""
    arrays, metadata = load_arrays(file)
    try:
        return StoredClientState.of(arrays, json.loads(metadata["private"]))
    except (KeyError, ValueError) as error:
        raise RunError(f"{file} does not hold the state of a client ({error!r})") from None


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the metrics of one method's run, a dictionary per round. Raises RunError at a line that is damaged."""
    with open(path / METRICS, "rb") as log_records:
        for number, log_record in enumerate(log_records, start=1):
            try:
                yield json.loads(log_record)
            except ValueError as error:
                raise RunError(f"{path / METRICS} is damaged in line {number} ({error})") from None


def read_commit(path: Path) -> Checkpoint:
    """Read the last commit of a method's run. Its round is -1 before the first commit. Raises RunError for damage."""
    file = path / COMMIT
    try:
        found = Checkpoint(**read_json(file))
    except FileNotFoundError:
        return NOTHING
    except TypeError as error:
        raise RunError(f"{file} is not a commit record ({error})") from None
    if not _is_plain(found):
        raise RunError(f"{file} is not a commit record; expected whole numbers of rounds and bytes, and tables")
    return found


def _is_plain(commit: Checkpoint) -> bool:
    """Return whether the fields have the types that they should have."""
    numbers = commit.round, commit.metrics_bytes
    tables = commit.values, commit.clients, commit.digests
    if not all(isinstance(table, dict) for table in tables) or not all(client.isdecimal() for client in commit.clients):
        return False
    return all(type(number) is int for number in (*numbers, *commit.clients.values()))

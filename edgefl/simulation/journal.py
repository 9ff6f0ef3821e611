"""The run directory of a simulation: what a crash may not lose, as plain files. Not the round loop (loop.py).

    RUN/run.json                       the experiment: what is run, on which data, from which seed
    RUN/<method>/commit.json           the last committed round; this file alone decides what counts
    RUN/<method>/server/000010.safetensors          the server's arrays after round 10
    RUN/<method>/clients/0007/000004.safetensors    what client 7 keeps after round 4, private values as JSON metadata
    RUN/<method>/metrics.jsonl         one line per round
    RUN/<method>/lock                  held by the process that runs it, so that a second one is refused

Files are written under the tag of their round and never overwritten. A commit syncs them and the metrics to the disk,
then replaces commit.json by one rename, then removes what it superseded. Opening a directory removes whatever the last
commit does not name, so a process killed at any point resumes from its last commit and repeats the rounds after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.numpy

from edgefl.algorithms.base import State
from edgefl.durable import load_arrays, lock, sync, write_atomically
from edgefl.errors import RunError
from edgefl.rounds import state_file
from edgefl.rounds.state_file import Kept

COMMIT = "commit.json"
METRICS = "metrics.jsonl"
LOCK = "lock"


@dataclass(frozen=True)
class Commit:
    """What commit.json says: the round, the server's plain values, and the round tag of every client's file."""

    round: int
    done: bool
    values: dict[str, Any]
    clients: dict[str, int]
    metrics_bytes: int


NOTHING = Commit(-1, False, {}, {}, 0)


class Journal:
    """The durable state of one method's run. `save_local` may be called from several threads, the rest from one.

    committed  the last commit; its round is -1 before the first one
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "server").mkdir(parents=True, exist_ok=True)
        (path / "clients").mkdir(exist_ok=True)
        self._lock = lock(path / LOCK)
        sync(path.parent)
        self.committed = _read_commit(path / COMMIT)
        self._tags = {int(client): tag for client, tag in self.committed.clients.items()}
        self._unsynced: set[Path] = set()
        self._remove_uncommitted()
        self._metrics = open(path / METRICS, "ab")  # noqa: SIM115 (closed by close)

    def close(self) -> None:
        self._metrics.close()
        self._lock.close()

    def load_state(self) -> State:
        """The server's state as of the last commit. Raises RunError if its file is missing or corrupt."""
        return state_file.load(self._server_file(self.committed.round), dict(self.committed.values))

    def has_local(self, client: int) -> bool:
        """True once the client has been saved."""
        return client in self._tags

    def load_local(self, client: int) -> Kept | None:
        """What a client keeps after its last training; None if it has never trained."""
        tag = self._tags.get(client)
        if tag is None:
            return None
        arrays, metadata = load_arrays(self._client_file(client, tag))
        return Kept.of(arrays, json.loads(metadata["private"]))

    def save_local(self, client: int, round: int, kept: Kept) -> None:
        """Writes what a client keeps under the tag of this round. Not durable before `commit`."""
        file = self._client_file(client, round)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(safetensors.numpy.save(kept.flat(), {"private": json.dumps(kept.private)}))
        superseded = self._client_file(client, self._tags.get(client, -1))
        if superseded in self._unsynced:
            self._unsynced.discard(superseded)
            superseded.unlink()
        self._unsynced.add(file)
        self._tags[client] = round

    def forget_local(self, client: int) -> None:
        """The client has lost what it kept."""
        self._tags.pop(client, None)

    def log(self, line: dict[str, Any]) -> None:
        """Appends one line to the metrics. Not durable before `commit`. Raises ValueError if JSON has no such value."""
        self._metrics.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def metrics(self) -> Iterator[dict[str, Any]]:
        """Every line logged so far."""
        self._metrics.flush()
        return read_metrics(self.path)

    def commit(self, round: int, state: State, done: bool = False) -> None:
        """Makes everything up to and including `round` durable, in one step."""
        self._save_state(round, state)
        for file in self._unsynced:
            sync(file)
        for folder in {file.parent for file in self._unsynced} | {self.path / "clients", self.path / "server"}:
            sync(folder)
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        clients = {str(client): self._tags[client] for client in sorted(self._tags)}
        commit = Commit(round, done, state.values, clients, self._metrics.tell())
        write_atomically(self.path / COMMIT, json.dumps(asdict(commit), indent=1).encode())
        self.committed = commit
        self._unsynced.clear()
        self._remove_uncommitted()

    def _save_state(self, round: int, state: State) -> None:
        file = self._server_file(round)
        file.write_bytes(state_file.pack(state))
        sync(file)

    def _remove_uncommitted(self) -> None:
        """Removes the files that the last commit does not name, and metrics written after it."""
        keep = {self._client_file(client, tag) for client, tag in self._tags.items()}
        for file in (self.path / "clients").glob("*/*"):
            if file not in keep:
                file.unlink()
        for file in (self.path / "server").glob("*"):
            if file != self._server_file(self.committed.round):
                file.unlink()
        metrics = self.path / METRICS
        length = metrics.stat().st_size if metrics.exists() else 0
        if length < self.committed.metrics_bytes:
            raise RunError(f"{metrics} has {length} bytes; its last commit wrote {self.committed.metrics_bytes}")
        if length > self.committed.metrics_bytes:
            os.truncate(metrics, self.committed.metrics_bytes)

    def _server_file(self, round: int) -> Path:
        return self.path / "server" / f"{round:06d}.safetensors"

    def _client_file(self, client: int, round: int) -> Path:
        return self.path / "clients" / f"{client:04d}" / f"{round:06d}.safetensors"


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The metrics of one method's run, a dictionary per round."""
    with open(path / METRICS, "rb") as lines:
        for line in lines:
            yield json.loads(line)


def _read_commit(file: Path) -> Commit:
    try:
        return Commit(**json.loads(file.read_bytes()))
    except FileNotFoundError:
        return NOTHING
    except (ValueError, TypeError) as error:
        raise RunError(f"{file} is not a commit record ({error})") from None

"""The committed rounds of one method of a simulation, read during the run or after it. No lock is taken and nothing is
written.

journal.py continues a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from edgefl.errors import RunError
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.task import State
from edgefl.study.simulation.journal import COMMIT, Checkpoint, client_file, read_commit, read_kept, server_file
from edgefl.system.durable_files import check_sha256

ATTEMPTS = 100  # attempts to read files that the simulation may remove after its commit was read


class RestoredCheckpoint(NamedTuple):
    """The last committed round, the server's state after it, and what the client asked for keeps, if anything.

    trained  the clients that keep something
    """

    round: int
    state: State
    kept: StoredClientState | None
    trained: tuple[int, ...]


def read_committed(path: Path, client: int | None = None) -> RestoredCheckpoint:
    """Read the last commit in a method's directory. Raises RunError without a commit, or for a damaged file."""
    for _ in range(ATTEMPTS):
        commit = read_commit(path)
        if commit.round < 0:
            raise RunError(f"{path / COMMIT} is missing; expected the directory of a method in a simulation's run")
        try:
            trained = tuple(sorted(map(int, commit.clients)))
            return RestoredCheckpoint(commit.round, _state(path, commit), _kept(path, commit, client), trained)
        except RunError:
            if read_commit(path) == commit:
                raise
    raise RunError(f"{path} commits rounds faster than they can be read; expected no new commit during one read")


def _state(path: Path, commit: Checkpoint) -> State:
    file = server_file(path, commit.round)
    return state_file.load(file, dict(commit.values), commit.digests.get(str(file.relative_to(path))))


def _kept(path: Path, commit: Checkpoint, client: int | None) -> StoredClientState | None:
    if str(client) not in commit.clients:
        return None
    assert client is not None
    file = client_file(path, client, commit.clients[str(client)])
    if (digest := commit.digests.get(str(file.relative_to(path)))) is not None:
        check_sha256(file, digest)
    return read_kept(file)

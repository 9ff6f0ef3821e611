"""The check of a run's directory for a server or a reader: is it new, and do its files agree? It changes nothing there.

run.db has the digest of its own rows, of the settings in run.json and of each file of arrays. last_commit says which
commit it must have reached, and `id` repeats the run's id. So a file that is lost, damaged or older than the others is
named before it is used. The check does not notice if an older copy replaces all files together, which devices notice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from edgefl.errors import RunError
from edgefl.experiment.run_json import EXPERIMENT, settings_digest
from edgefl.server.array_files import arrays_files
from edgefl.server.last_commit import LAST_COMMIT, Commit, read_last_commit
from edgefl.server.row_digest import check_content
from edgefl.server.schema import DATABASE, LOG, open_for_reading
from edgefl.system.durable_files import naming

IDENTITY = "id"


def is_new(path: Path) -> bool:
    """Return whether no server has used the directory. Raises RunError if only the database is missing there."""
    if (path / DATABASE).exists():
        return False
    for trace in (path / IDENTITY, path / LAST_COMMIT, path / LOG, *arrays_files(path)):
        if trace.exists():
            raise RunError(f"{path / DATABASE} is missing beside {trace}; expected the database of that run")
    return True


@contextmanager
def checked(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a snapshot of the run's database, which is whole and not older than its last commit.

    Raises  RunError naming the file that is missing, damaged or older than the others. RunError also for damage that
            the with block finds in the database.
    """
    expected = read_last_commit(path)  # read before the database, because a running server goes on meanwhile
    with closing(open_for_reading(path)) as database:
        try:
            database.execute("BEGIN")
            _check_last_commit(path, check_content(database), expected)
            _check_run(path, *database.execute("SELECT id, settings FROM run").fetchone())
            yield database
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise damaged(path, error) from None


def damaged(path: Path, why: object) -> RunError:
    """Return the error for a damaged database, or for its damaged log if there is a log."""
    log = f", read with {path / LOG}," if (path / LOG).exists() else ""
    return RunError(f"{path / DATABASE}{log} is damaged ({why})")


def run_id(database: sqlite3.Connection) -> str:
    """Return the name by which devices know the run."""
    (found,) = database.execute("SELECT id FROM run").fetchone()
    return str(found)


def _check_last_commit(path: Path, found: Commit, expected: Commit | None) -> None:
    if expected is None and found.number:
        raise RunError(f"{path / LAST_COMMIT} is missing; expected the last commit of {DATABASE}, {found.number}")
    if expected is None:
        return
    if found.number < expected.number:
        log = f"{path / LOG} is {'damaged' if (path / LOG).exists() else 'missing'}"
        raise RunError(f"{_says(path, found, expected)}: {log}, or {path / DATABASE} is an older copy")
    if found.number == expected.number and found != expected:
        raise RunError(f"{_says(path, found, expected)} with another digest: the two files belong to different runs")


def _says(path: Path, found: Commit, expected: Commit) -> str:
    return f"{path / DATABASE} is at commit {found.number}, but {path / LAST_COMMIT} says {expected.number}"


def _check_run(path: Path, run: str, settings: str) -> None:
    identity = path / IDENTITY
    with naming(identity):
        is_other = identity.exists() and identity.read_bytes() != run.encode()
    if is_other:
        raise RunError(f"{identity} does not name the run in {DATABASE}, {run}; expected one run in a directory")
    if settings != settings_digest(path):
        raise RunError(
            f"{path / EXPERIMENT} has other settings than {DATABASE} was made with; expected the settings of the run"
        )

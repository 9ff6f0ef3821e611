"""Errors of the disk while a run's directory is opened: each of them names the file, and nothing is changed there."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from edgefl.cli.access_error import sentence
from edgefl.errors import RunError
from edgefl.experiment.run_json import open_run
from edgefl.server.store import Store
from tests.server.stored import run
from tests.server.test_directory_check import SMALL, contents


@pytest.mark.parametrize("name", ["run.json", "last_commit", "id"])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's error does not name a file that is open already."""
    open_run(tmp_path, SMALL.to_json())
    store = Store(tmp_path)
    store.save(run(4)[0])
    store.close()
    before, read = contents(tmp_path), Path.read_bytes

    def failing(path: Path) -> bytes:
        if path == tmp_path / name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", failing)
        with pytest.raises(OSError, match="Input/output error") as caught:
            Store(tmp_path)
    assert sentence(caught.value) == f"{tmp_path / name}: input/output error"
    assert contents(tmp_path) == before


class FailingDatabase:
    """A database whose file cannot be read."""

    def execute(self, *arguments: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")


def test_a_database_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(RunError) as caught:
        patch.setattr(store, "_database", FailingDatabase())
        store.load()
    assert str(caught.value).startswith(f"{tmp_path / 'run.db'}, read with")
    assert str(caught.value).endswith("is damaged (disk I/O error)")
    store.close()

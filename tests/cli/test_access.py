"""Files and folders that the user may not use: one sentence with the remedy, and exit code 2 in every command."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

from edgefl.cli import cli
from edgefl.cli.access_error import is_of_request, sentence


@pytest.mark.parametrize(
    ("number", "filename", "said", "is_request"),
    [
        (errno.EACCES, "/d", "/d: permission denied; expected a file or folder that this user may use", True),
        (errno.EROFS, "/d", "/d: read-only file system; expected a folder that can be written; name another", True),
        (errno.ENOENT, "/d", "/d: no such file or directory; expected a file or folder that exists", True),
        (errno.ENOTDIR, "/d/x", "/d/x: not a directory; expected a folder", True),
        (errno.EISDIR, "/d", "/d: is a directory; expected a file", True),
        (errno.ENOSPC, "/d", "/d: no space left on device", False),
        (errno.EPIPE, None, "standard output or a file cannot be written (Broken pipe)", False),
        (errno.ENOSPC, None, "standard output or a file cannot be written (No space left on device)", False),
    ],
)
def test_an_error_of_the_system_is_a_sentence(number: int, filename: str | None, said: str, is_request: bool) -> None:
    error = OSError(number, os.strerror(number), filename)
    assert sentence(error).startswith(said)
    assert "[Errno" not in sentence(error)
    assert is_of_request(error) == is_request


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    path = tmp_path / "data.npz"
    np.savez(path, x=rng.normal(size=(40, 6)).astype(np.float32), y=(np.arange(40) % 2).astype(np.int32))
    return path


FEW = ("--clients", "2", "--per-round", "2", "--rounds", "1")
COMMANDS = {  # command -> arguments that write below FOLDER
    "simulate": ("--method", "fedavg", "--data", "DATA", *FEW, "--run-dir", "FOLDER/run"),
    "serve": ("--method", "fedavg", "--data", "DATA", *FEW, "--port", "0", "--run-dir", "FOLDER/run"),
    "demo": ("--rounds", "1", "--run-dir", "FOLDER/run"),
    "partition": ("--data", "DATA", "--clients", "2", "--per-round", "2", "--out", "FOLDER/out"),
    "client": ("--data", "DATA", "--server", "127.0.0.1:1", "--state", "FOLDER/state", "--give-up", "0"),
    "keys": ("FOLDER/keys", "--clients", "2"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_cannot_be_written_is_the_users_to_name(
    command: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """mkdir refuses here as the system would, because the superuser may write anywhere."""
    folder = tmp_path / "locked"
    folder.mkdir()
    made = os.mkdir

    def refuse(path: str | os.PathLike[str], *rest: int, **more: int) -> None:
        if folder in Path(path).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        made(path, *rest, **more)

    monkeypatch.setattr("os.mkdir", refuse)
    words = [word.replace("DATA", str(data)).replace("FOLDER", str(folder)) for word in COMMANDS[command]]
    assert cli.main([command, *words]) == 2
    said = capsys.readouterr().err
    assert re.match(
        rf"edgefl {command}: {folder}/.*(: permission denied; expected a file or folder that this user may use; see"
        r"|\(Permission denied\); expected a run directory in a place of your own$)",
        said.splitlines()[-1],
    )
    assert "run directory:" not in said
    assert not any(folder.iterdir())


@pytest.mark.parametrize("command", ["simulate", "serve", "partition", "client"])
def test_data_that_cannot_be_read_are_named(
    command: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(data))

    monkeypatch.setattr("zipfile.ZipFile", refuse)
    words = [word.replace("DATA", str(data)).replace("FOLDER", str(tmp_path)) for word in COMMANDS[command]]
    assert cli.main([command, *words]) == 2
    said = capsys.readouterr().err
    assert said == f"edgefl {command}: {data}: permission denied; expected a file that this user may read\n"

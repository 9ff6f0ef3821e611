"""Folders whose names are on the disk. Files that are replaced whole have their tests where they are used."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgefl.deployment.device import device_state
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.system import durable_files
from edgefl.system.durable_files import private_directory, write_atomically


@pytest.mark.parametrize(
    ("folder", "synced"),
    [("a", ["."]), ("a/b", [".", "a"]), ("a/b/c", [".", "a", "a/b"]), ("there", ["."]), ("there/d", ["there"])],
)
def test_the_name_of_every_made_folder_is_brought_to_the_disk(
    folder: str, synced: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    found: list[Path] = []
    monkeypatch.setattr(durable_files, "sync", found.append)
    private_directory(tmp_path / folder)
    assert found == [tmp_path / name for name in synced]
    assert (tmp_path / folder).stat().st_mode & 0o777 == (0o755 if folder == "there" else 0o700)


def test_a_folder_is_made_in_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(durable_files, "sync", refuse)
    private_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_device_that_opens_its_folder_again_syncs_the_names_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Path] = []
    monkeypatch.setattr(durable_files, "sync", found.append)
    monkeypatch.setattr(device_state, "sync", found.append)
    for _ in range(2):  # the second process finds folders that the first one may not have synced
        found.clear()
        directory = StateDirectory(tmp_path / "device")
        folder = directory.open("run", None).path
        directory.close()
        assert list(dict.fromkeys(found)) == [tmp_path, tmp_path / "device", folder.parent, folder]


def test_a_name_that_the_disk_cannot_keep_is_an_error_that_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of an existing folder may not be on the disk. A read-only file system is no reason to end."""

    def fail(number: int) -> Callable[[int], None]:
        def fsync(handle: int) -> None:
            raise OSError(number, os.strerror(number))

        return fsync

    (tmp_path / "there").mkdir()
    monkeypatch.setattr(os, "fsync", fail(errno.EROFS))
    private_directory(tmp_path / "there")
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    with pytest.raises(OSError, match="Input/output error") as caught:
        private_directory(tmp_path / "there")
    assert caught.value.filename == str(tmp_path)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output error") as caught:
        write_atomically(tmp_path / "file", b"content")
    assert caught.value.filename == str(tmp_path / "file")
    assert not list(tmp_path.iterdir())

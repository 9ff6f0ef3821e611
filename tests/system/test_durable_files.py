"""Folders whose names are on the disk. Files that are replaced whole have their tests where they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefl.system import durable_files
from edgefl.system.durable_files import private_directory


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

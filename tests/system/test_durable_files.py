"""What has become durable when the functions of edgefl/system/durable_files.py return."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgefl.system.durable_files import private_directory


def test_the_names_of_new_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    private_directory(tmp_path / "device" / "runs")
    assert sorted(synced) == sorted([tmp_path.stat().st_ino, (tmp_path / "device").stat().st_ino])
    assert (tmp_path / "device" / "runs").stat().st_mode & 0o777 == 0o700
    private_directory(tmp_path / "device" / "runs")
    assert len(synced) == 2

"""A device's participation in one run on a disk that is full at its beginning and at its end, or that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_socket import Party
from edgefl.deployment.device.participation import take_part
from edgefl.deployment.device.run_folders import StateDirectory, folders, read_over
from edgefl.deployment.device.run_query import RunInquiry
from edgefl.errors import RunError
from edgefl.experiment.client_dataset import partition_file, read_partition
from tests.deployment.device.device_cases import ANYBODY, world


class TakenPart:
    """A participation whose disk refuses every fsync with this error until the device has waited."""

    def __init__(self, path: Path, partitions: Path, refusal: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.directory = StateDirectory(path)
        self._data = Data(*read_partition(partition_file(partitions, 0)))
        self._refusal, self._monkeypatch = refusal, monkeypatch
        self._is_refusing = True
        self._fsync = os.fsync

    def run(self) -> str:
        with self._monkeypatch.context() as patch:
            patch.setattr(os, "fsync", self._sync)
            return take_part(self.directory, ANYBODY, self._data, world(said=self.said, pause=self._pause), self._talk)

    def _talk(self, party: Party) -> str:
        if isinstance(party, RunInquiry):
            return "run 1"
        self._is_refusing = True
        return "the run ended after round 3"

    def _pause(self, failures: int) -> None:
        self._is_refusing = False

    def _sync(self, handle: int) -> None:
        if self._is_refusing:
            raise OSError(self._refusal, os.strerror(self._refusal))
        self._fsync(handle)


def test_a_full_disk_is_waited_for_at_the_beginning_and_at_the_end(
    tmp_path: Path, partitions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = TakenPart(tmp_path, partitions, errno.ENOSPC, monkeypatch)
    assert found.run() == "the run ended after round 3"
    (folder,) = folders(tmp_path)
    over = read_over(folder)
    assert over is not None
    assert over.reason == "the run ended after round 3"
    waits = "No space left on device; trying again until there is room"
    assert found.said == [f"{tmp_path}: {waits}", f"{folder}: {waits}"]


def test_a_disk_that_fails_is_named(tmp_path: Path, partitions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match=f"{tmp_path} cannot be written .*Input/output error"):
        TakenPart(tmp_path, partitions, errno.EIO, monkeypatch).run()

"""A device's samples, read again when their file has changed. What a file holds is experiment/client_dataset.py's."""

from __future__ import annotations

from pathlib import Path

from edgefl.deployment.device.device_model import Data
from edgefl.experiment.client_dataset import read_partition

State = tuple[int, int, int]


class SampleFile:
    """The file; `most`: bytes that its arrays may take beyond its own.

    Whoever writes the file writes beside it and renames, so that it is never half there.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        self.path, self._most = path, most
        self._state: State | None = None
        self._data: Data | None = None

    def newest(self) -> Data:
        """Read the present samples of the file. Raises DataError or OSError if nothing can be trained on them."""
        if self._data is None or self.has_changed():
            state = self._look()
            self._data, self._state = Data(*read_partition(self.path, self._most)), state
        return self._data

    def has_changed(self) -> bool:
        """Since it was read last. Raises OSError if it is gone."""
        return self._look() != self._state

    def forget(self) -> None:
        """Gives the memory back."""
        self._data = None

    def _look(self) -> State:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

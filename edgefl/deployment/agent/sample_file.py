"""A device's samples, which are read again when their file has changed. experiment/client_dataset.py has the format."""

from __future__ import annotations

from pathlib import Path

from edgefl.deployment.device.device_model import Data
from edgefl.experiment.client_dataset import read_partition

State = tuple[int, int, int]


class SampleFile:
    """A file of samples. `most` is the number of bytes that its arrays may take beyond the size of the file.

    A program that writes the file should write another file and rename it, so that the file is never half written.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        self.path, self._most = path, most
        self._state: State | None = None
        self._data: Data | None = None

    def newest(self) -> Data:
        """Read the present samples of the file. Raises DataError or OSError if the file cannot be used for training."""
        if self._data is None or self.has_changed():
            state = self._look()
            self._data, self._state = Data(*read_partition(self.path, self._most)), state
        return self._data

    def has_changed(self) -> bool:
        """Return whether the file has changed since it was last read. Raises OSError if it is gone."""
        return self._look() != self._state

    def forget(self) -> None:
        """Give the memory of the samples back."""
        self._data = None

    def _look(self) -> State:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

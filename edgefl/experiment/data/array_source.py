"""Arrays by name, each read when it is asked for: the interface of every container of arrays, and the members of npz
files.

npz.py says what the names stand for.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np

from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.npy import read_array, read_header

Entries = Mapping[str, Callable[[], BinaryIO]]
Form = tuple[tuple[int, ...], "np.dtype[Any]"]


class ArraySource(Protocol):
    """Arrays by name. Reading an array raises DataError naming the file and the array if the file is damaged."""

    def names(self) -> set[str]:
        """Return the names of all arrays."""

    def array(self, name: str) -> Array:
        """Return the array of that name."""

    def form(self, name: str) -> Form:
        """Return the array's shape and type. The call is cheap."""


class ArraysInMemory:
    """Arrays that have been read already."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def names(self) -> set[str]:
        """Return the names of all arrays."""
        return set(self._arrays)

    def array(self, name: str) -> Array:
        """Return the array of that name."""
        return self._arrays[name]

    def form(self, name: str) -> Form:
        """Return the array's shape and type."""
        return self._arrays[name].shape, self._arrays[name].dtype


class NpySource:
    """Streams of npy files by name."""

    def __init__(self, path: Path, entries: Entries) -> None:
        self.path, self.entries = path, entries

    @classmethod
    def of_zip(cls, path: Path, archive: zipfile.ZipFile) -> NpySource:
        """Open the members of an npz file."""
        opened = {name: partial(archive.open, name) for name in archive.namelist()}
        return cls(path, {name.removesuffix(".npy"): cast("Callable[[], BinaryIO]", opened[name]) for name in opened})

    def names(self) -> set[str]:
        """Return the names of all streams."""
        return set(self.entries)

    def array(self, name: str) -> Array:
        """Read the array in the stream of that name."""
        what = f"{self.path}: {name}"
        with damage_named(what), self.entries[name]() as stream:
            return read_array(stream, what)

    def form(self, name: str) -> Form:
        """Return the array's shape and type, from the array's header alone."""
        what = f"{self.path}: {name}"
        with damage_named(what), self.entries[name]() as stream:
            shape, _, dtype = read_header(stream, what)
        return shape, dtype

"""Data that a program gave as arrays: named by their content, and kept with the run that began with them.

The settings of such a run have "own-", 32 hexadecimal digits and ".npz" in place of a data set's name. The file of that
name in the run's directory has the arrays in the form that any data file has (data/npz.py), so that the run is resumed,
read and repeated without the program. Not what may be in such a file, nor the readers of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgefl.errors import DataError, RunError
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.data.npz import read_npz
from edgefl.system.durable_files import private_directory, sync, temporary

KEPT = re.compile(r"own-[0-9a-f]{32}\.npz")


class OwnData(NamedTuple):
    """Arrays by the names of data/npz.py, the data set that they are, and its name in the settings."""

    name: str
    arrays: Mapping[str, Array]
    data: DataSet


def own_data(arrays: Mapping[str, Any]) -> OwnData:
    """Arrays, or whatever numpy or torch takes for some, as a data set. Raises DataError as `read_npz` does.

    Labels and groups may be text: they count as the places of their values in order.
    """
    plain: dict[str, Array] = {}
    for name, value in arrays.items():
        plain.update(_numbered(name, _array(name, value)))
    name = name_of(plain)
    with tempfile.TemporaryDirectory(prefix="edgefl-data-") as folder:
        path = Path(folder) / name
        np.savez(path, **plain)  # type: ignore[arg-type]
        try:
            return OwnData(name, plain, read_npz(path))
        except DataError as error:
            raise DataError(str(error).replace(str(path), "data")) from None


def read_own(path: Path) -> OwnData:
    """Of a file that `keep` wrote. Raises RunError if it is gone, or is not what its name says."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        found = name_of(arrays)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); expected the data that the run began with") from None
    if found != path.name:
        raise RunError(f"{path} has the content of {found}; expected the data that the run began with")
    return OwnData(found, arrays, read_npz(path))


def own_file(data: str | os.PathLike[str]) -> OwnData | None:
    """Of what a run has kept, by its path; None for any other data. Raises RunError as `read_own` does."""
    path = Path(data)
    return read_own(path) if KEPT.fullmatch(path.name) and path.is_file() else None


def keep(run: Path, own: OwnData) -> None:
    """Writes the run's own copy, unless it is there."""
    path = run / own.name
    if path.exists():
        return
    private_directory(run)
    with open(temporary(path), "wb") as file:
        np.savez(file, **own.arrays)  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary(path), path)
    sync(run)


def arrays_of(data: DataSet) -> dict[str, Any]:
    """A data set by the names of data/npz.py."""
    names = {"x": "x", "y": "y", "x_test": "x_test", "y_test": "y_test", "group": "groups", "group_test": "groups_test"}
    names |= {"time": "times", "vocabulary": "vocabulary", "class_names": "class_names"}
    found = {key: getattr(data, name) for key, name in names.items() if getattr(data, name) is not None}
    classes = {"classes": data.classes} if data.has_labels else {}
    sequence_axes = {"axes": "NCL"} if data.x.ndim == 3 else {}
    return {**found, **classes, **sequence_axes, "scale": data.scale, "shift": data.shift}


def name_of(arrays: Mapping[str, Array]) -> str:
    """The name of these arrays in settings, and of their file in a run."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {value.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(value.data if value.size else b"")
    return f"own-{digest.hexdigest()[:32]}.npz"


def _array(name: str, value: Any) -> Array:
    """Of a torch tensor, wherever it lies, without importing torch; or of whatever numpy takes. Groups that are whole
    numbers are so, whatever their type. Raises DataError if there is no array of it.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise DataError(f"data: {name} is no array ({error}); expected rows of one length") from None
    is_whole = name == "group" and found.dtype.kind == "f" and bool((found == np.floor(found)).all())
    return found.astype(np.int64) if is_whole else found


def _numbered(name: str, value: Array) -> dict[str, Array]:
    """Text as numbers, with the values that they stand for where they are labels."""
    if value.dtype == object and all(isinstance(each, str) for each in value.flat):
        value = value.astype(str)
    if value.dtype.kind != "U" or name not in ("y", "group"):
        return {name: value}
    known, positions = np.unique(value, return_inverse=True)
    numbers = {name: positions.reshape(value.shape).astype(np.int32)}
    return {**numbers, "class_names": known} if name == "y" else numbers

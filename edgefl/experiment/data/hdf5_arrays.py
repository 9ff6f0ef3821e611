"""Arrays in an HDF5 file, under the names that an npz file has (npz.py), also in groups `train` and `test`.

h5py is the library for these files, and only this file needs it. MATLAB's files of version 7.3 are HDF5
(matlab_arrays.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.optional_package import check_installed

CLIENTS = "examples"  # the group in files of TensorFlow Federated that has a group for each client
INPUTS, TARGETS = ("pixels", "image", "x"), ("label", "y")  # names of the inputs and of the targets in such a group


def arrays_of(path: Path) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Return all arrays of the file by name, and no notes.

    Raises  DataError naming the file, the array and what was expected, or saying that h5py is missing.
    """
    return values_of(path), ()


def values_of(path: Path) -> dict[str, Array]:
    """Return all arrays of the file by name. Raises DataError as `arrays_of` does."""
    check_installed(path, "h5py")
    import h5py

    found: dict[str, Array] = {}
    with damage_named(str(path)), h5py.File(path, "r") as file:
        if CLIENTS in file and isinstance(file[CLIENTS], h5py.Group):
            return _of_clients(path, {name: _members(h5py, group) for name, group in file[CLIENTS].items()})
        found = _members(h5py, file)
        for part, suffix in (("train", ""), ("test", "_test")):
            if part in file and isinstance(file[part], h5py.Group):
                found |= {f"{name}{suffix}": value for name, value in _members(h5py, file[part]).items()}
    return found


def _members(h5py: object, group: object) -> dict[str, Array]:
    """Return the arrays directly in a group, without the arrays of its subgroups."""
    datasets = {name: each for name, each in group.items() if isinstance(each, h5py.Dataset)}  # type: ignore[attr-defined]
    return {name: _plain(each[()]) for name, each in datasets.items()}


def _plain(value: object) -> Array:
    """Convert texts to numpy's own type of text."""
    found = np.asarray(value)
    if found.dtype.kind in "OS":
        found = np.array([each.decode() if isinstance(each, bytes) else str(each) for each in found.ravel()]).reshape(
            found.shape
        )
    return found


def _of_clients(path: Path, clients: dict[str, dict[str, Array]]) -> dict[str, Array]:
    """Join the samples of all clients. Each client is a group."""
    first = next(iter(clients.values()), {})
    x, y = (next((name for name in names if name in first), None) for names in (INPUTS, TARGETS))
    if x is None or y is None:
        listed = ", ".join(first) or "nothing"
        raise DataError(
            f"{path}: {CLIENTS} has clients with the data sets {listed}; expected {' or '.join(INPUTS)}, and label"
        )
    groups = np.repeat(np.array(list(clients)), [len(client[y]) for client in clients.values()])
    joined = {"x": x, "y": y}
    return {key: np.concatenate([client[name] for client in clients.values()]) for key, name in joined.items()} | {
        "group": groups
    }

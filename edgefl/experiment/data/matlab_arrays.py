"""Arrays in a MATLAB file, under the names that an npz file has (npz.py). They may be named X and Y in place of x and
y.

scipy reads versions up to 7.2, and h5py reads version 7.3. MATLAB has no vectors and few whole numbers. So labels of
shape [N, 1] or [1, N] that are whole become integers [N]. An x whose last axis has the N samples gets them as first
axis.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgefl.experiment.data import hdf5_arrays
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.optional_package import check_installed

HDF5 = b"MATLAB 7.3"  # the first bytes of such a file
INPUTS = ("x", "x_train", "x_test")
SAMPLES_LAST = "the samples are the last axis of x, and are taken as the first"


def arrays_of(path: Path) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Return all arrays of the file as arrays of numpy, and what was done.

    Raises  DataError naming the file, the array and what was expected, or saying that scipy or h5py is missing.
    """
    with damage_named(str(path)), open(path, "rb") as file:
        is_hdf5 = file.read(len(HDF5)) == HDF5
    if is_hdf5:
        found = {name: value.T for name, value in hdf5_arrays.values_of(path).items()}
    else:
        check_installed(path, "scipy")
        from scipy import io

        with damage_named(str(path)):
            found = {name: value for name, value in io.loadmat(str(path)).items() if not name.startswith("__")}
    plain = {name: value if name.lower() in INPUTS else _vector(np.asarray(value)) for name, value in found.items()}
    for large in ("X", "Y", "X_test", "Y_test", "X_train", "Y_train"):
        if large in plain and large.lower() not in plain:
            plain[large.lower()] = plain.pop(large)
    notes: tuple[str, ...] = ()
    for x, y in (("x", "y"), ("x_train", "y_train"), ("x_test", "y_test")):
        if x in plain and y in plain and plain[x].ndim > 1 and plain[x].shape[0] != len(plain[y]) == plain[x].shape[-1]:
            plain[x], notes = np.moveaxis(plain[x], -1, 0), (SAMPLES_LAST,)
    return plain, notes


def _vector(value: Array) -> Array:
    """Return a column or a row as [N], with whole numbers as integers. A cell array of texts becomes texts."""
    if value.dtype == object:
        value = np.array([str(np.ravel(each)[0]) if np.size(each) else "" for each in value.ravel()])
    if value.ndim == 2 and 1 in value.shape:
        value = value.reshape(-1)
        if value.dtype.kind == "f" and np.isfinite(value).all() and (value == np.floor(value)).all():
            value = value.astype(np.int64)
    return value

"""Arrays that a program gave as data, named by their content and kept with the run that began with them.

The settings of such a run have "own-", 32 hexadecimal digits and ".npz" in place of a data set's name. The file of that
name in the run's directory has the arrays in the form that any data file has. With this file a run is resumed, read and
repeated without the program. data/npz.py reads such files and says what may be in them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgefl.errors import DataError, RunError
from edgefl.experiment.data.column_choice import MEAN, Reading
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.data.npz import may_have_channels_last, read_arrays, read_npz
from edgefl.models.neurons.block_index import read_only
from edgefl.system.durable_files import private_directory, sync, temporary

CALLED = "data"  # what arrays are called in messages
KEPT = re.compile(r"own-[0-9a-f]{32}\.npz")


class OwnData(NamedTuple):
    """Arrays by the names of data/npz.py, the data set that they are, and its name in the settings."""

    name: str
    arrays: Mapping[str, Array]
    data: DataSet


def own_data(arrays: Mapping[str, Any], axes: str = "") -> OwnData:
    """Make a data set of arrays, or of values that numpy or torch can convert. Raises DataError as `read_npz` does.

    Arrays are not copied where they have the form that training reads. Nobody writes to them.
    axes    the order of the axes of x (column_choice.py). Empty: the array named `axes` says the order, if there is one
    Labels and groups may be text: each text becomes its position among the sorted distinct texts.
    """
    plain: dict[str, Array] = {}
    for name, value in arrays.items():
        plain.update(_numbered(name, read_only(np.asarray(_array(name, value), order="C"))))
    name = name_of(plain)
    return OwnData(name, plain, read_arrays(plain, CALLED, Reading(axes=axes)))


def read_own(path: Path, axes: str = "") -> OwnData:
    """Read the data from a file that `keep` wrote. The argument `axes` means what it means in `own_data`.

    Raises  RunError if the file is gone, or if its content does not match its name.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        found = name_of(arrays)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); expected the data that the run began with") from None
    if found != path.name:
        raise RunError(f"{path} has the content of {found}; expected the data that the run began with")
    was_settled = "axes" not in arrays and may_have_channels_last(getattr(arrays.get("x"), "shape", ()))
    data = read_npz(path, Reading(axes="NCHW" if was_settled else axes))  # written by a version that stored no axes
    return OwnData(found, arrays, replace(data, name=CALLED))


def own_file(data: str | os.PathLike[str], axes: str = "") -> OwnData | None:
    """Read the data that a run has kept in the file `data`, or return None for other files. Raises RunError as
    `read_own`.
    """
    path = Path(data)
    return read_own(path, axes) if KEPT.fullmatch(path.name) and path.is_file() else None


def keep(run: Path, own: OwnData) -> None:
    """Write the run's own copy of the data, unless the copy exists already."""
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
    """Return the arrays of a data set by their names in data/npz.py."""
    names = {"x": "x", "y": "y", "x_test": "x_test", "y_test": "y_test", "group": "groups", "group_test": "groups_test"}
    names |= {"time": "times", "vocabulary": "vocabulary", "class_names": "class_names"}
    found = {key: getattr(data, name) for key, name in names.items() if getattr(data, name) is not None}
    classes: dict[str, Any] = {"classes": data.classes} if data.has_labels else {}
    classes |= {"targets": "labels"} if data.has_labels and not data.has_classes else {}
    return {**found, **classes, **axes_of(data.x), **_lacking(data), "scale": data.scale, "shift": data.shift}


def axes_of(x: Array) -> dict[str, str]:
    """Return the order of the axes of `x` as the entry `axes` (data/npz.py), or {} if the shape tells the order."""
    if may_have_channels_last(x.shape):
        return {"axes": "NCHW"}
    return {"axes": "NCL"} if x.ndim == 3 else {}


def _lacking(data: DataSet) -> dict[str, Any]:
    """Return the features with NaN in place of each value that a mean is to fill, and the entry `missing`. Return {} if
    no value is absent.
    """
    if data.absent is None and data.absent_test is None:
        return {}
    parts = {"x": (data.x, data.absent), "x_test": (data.x_test, data.absent_test)}
    found = {
        name: np.where(absent, np.nan, x) for name, (x, absent) in parts.items() if x is not None and absent is not None
    }
    return {**{name: x.astype(np.float32) for name, x in found.items()}, "missing": MEAN}


def name_of(arrays: Mapping[str, Array]) -> str:
    """Return the name of these arrays in settings, which is also the name of their file in a run."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {value.dtype.str} {arrays[name].shape}\n".encode())
        value = value.view(np.int64) if value.dtype.kind in "mM" else value  # dates have no buffer
        digest.update(value.data if value.size else b"")
    return f"own-{digest.hexdigest()[:32]}.npz"


def as_array(name: str, value: Any) -> Array:
    """Convert a torch tensor, or any object that numpy converts, to a numpy array. The tensor may be on any device and
    of any precision. torch is not imported. Raises DataError if the value cannot be converted.
    """
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "iub" and value.mask.any():
        at = ", ".join(str(int(each[0])) for each in np.nonzero(np.ma.getmaskarray(value)))
        raise DataError(f"data: {name}[{at}] is masked; expected a value, or floating-point numbers with missing=")
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind == "f":
        value = value.filled(np.nan)
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()  # numpy has no bfloat16
        return np.asarray(value)
    except (TypeError, RuntimeError) as error:
        found = getattr(value, "dtype", type(value).__name__)
        raise DataError(
            f"data: {name} is {found}, and no array ({error}); expected numbers as numpy has them"
        ) from None
    except ValueError as error:
        raise DataError(
            f"data: {name} is no array{_uneven(name, value, error)}; expected rows of one length, as by padding"
        ) from None


def _uneven(name: str, value: Any, error: ValueError) -> str:
    """Return a phrase that names the first row whose length differs from that of row 0, or else the error."""
    shapes = [tuple(np.shape(row)) for row in value[:1]] if isinstance(value, list | tuple) else []
    for at, row in enumerate(value if shapes else ()):
        try:
            shape = tuple(np.shape(row))
        except ValueError:
            break
        if shape != shapes[0]:
            return f": {name}[0] has shape {shapes[0]}, and {name}[{at}] {shape}"
    return f" ({error})"


def _array(name: str, value: Any) -> Array:
    """Convert a value to an array. Group ids that are whole become int64. Raises DataError as `as_array` does."""
    found = as_array(name, value)
    is_whole = name == "group" and found.dtype.kind == "f" and bool((found == np.floor(found)).all())
    return found.astype(np.int64) if is_whole else found


def _numbered(name: str, value: Array) -> dict[str, Array]:
    """Replace texts in labels and groups by numbers. For labels the texts are returned as well, as `class_names`."""
    if value.dtype == object and all(isinstance(each, str) for each in value.flat):
        value = value.astype(str)
    if value.dtype.kind != "U" or name not in ("y", "group"):
        return {name: value}
    known, positions = np.unique(value, return_inverse=True)
    numbers = {name: positions.reshape(value.shape).astype(np.int32)}
    return {**numbers, "class_names": known} if name == "y" else numbers

"""The targets of a file of named arrays: labels, a label for each place, values, or the inputs themselves. npz.py says
what may be in such a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array, Groups, listed, not_finite
from edgefl.experiment.data.label_meaning import are_numbers

INPUTS = ("x", "x_train", "x_test")  # arrays that may be targets, too
BOOLEANS = ("False", "True")  # the classes of targets that are booleans


class TargetReader(Protocol):
    """What reading targets needs of a file of named arrays, which npz.LabelledArrays has."""

    path: Path
    keys: set[str]

    def array(self, key: str) -> Array: ...
    def inputs(self, key: str) -> Array: ...
    def number(self, key: str) -> float: ...
    def stated(self, key: str) -> str: ...
    def as_int32(self, key: str, values: Array) -> Array: ...
    def texts(self, key: str, texts: Array, names: tuple[str, ...]) -> Groups: ...
    def scaling(self, x: Array) -> tuple[float, float]: ...


def targets_of(reader: TargetReader, key: str, names: tuple[str, ...] = ()) -> Groups:
    """Return labels as int32 [N] or [N, *places] with the names of the classes, if the labels are texts, or else
    values as float32 [N, outputs] or [N, *shape]. If `names` are given, the texts must be among them.
    """
    if key in INPUTS:
        return _own_inputs(reader, key), ()
    y = reader.array(key)
    if y.ndim == 2 and y.shape[1] == 1 and y.dtype.kind in "Uiub":
        y = y[:, 0]
    if y.dtype.kind == "U" and y.ndim == 1:
        return reader.texts(key, y, names)
    if y.dtype.kind == "b" and y.ndim == 1:
        return y.astype(np.int32), BOOLEANS
    if y.dtype.kind in "iu" and y.ndim == 1 and ("classes" in reader.keys or not are_numbers(y)):
        return reader.as_int32(key, y), ()
    if y.dtype.kind in "iu" and _are_places(reader, y):
        return reader.as_int32(key, y.reshape(-1)).reshape(y.shape), ()
    if y.dtype.kind not in "biuf" or not 1 <= y.ndim <= 4:
        raise DataError(
            f"{reader.path}: {key} is {y.dtype} {y.shape}; expected integers or texts [N], or numbers [N, outputs]"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(y if y.ndim > 1 else y[:, np.newaxis], np.float32)
    if (at := not_finite(values)) is not None:
        cure = "finite float32 values: leave out samples without a target"
        raise DataError(f"{reader.path}: {key}[{listed(at[: y.ndim])}] is {values[at]}; expected {cure}")
    return values, ()


def _are_places(reader: TargetReader, y: Array) -> bool:
    """Return whether integers are a label for each place, and not a value for each output."""
    has_other_classes = "classes" in reader.keys and y.ndim == 2 and reader.number("classes") != y.shape[1]
    return y.ndim in (3, 4) or (y.ndim == 2 and (has_other_classes or reader.stated("targets") == "labels"))


def _own_inputs(reader: TargetReader, key: str) -> Array:
    """Return the inputs as the model reads them, for targets that are the inputs."""
    x = reader.inputs(key)
    scale, shift = reader.scaling(x)
    return x.astype(np.float32) * np.float32(scale) + np.float32(shift)

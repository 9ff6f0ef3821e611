"""Labelled examples in an npz file, with optional group ids.

    x or x_train    uint8 or float [N, H, W] or [N, C, H, W]; or [N, F], features, or ids of words as any integers
    y or y_train    integers [N], labels from 0; or values: float [N] or [N, outputs], or integers [N, outputs]
    x_test, y_test  optional, alike
    G or G_train, and G_test
                    optional integers [N]: who an example comes from; G is "group", "speaker" or what the caller names
    classes         optional number of classes; without it the length of `class_names`, or the largest label + 1, which
                    is then at most 1,000 or the number of examples
    scale, shift    optional: the model's input is x * scale + shift. Without them uint8 becomes [0, 1], float stays
    lo, hi          optional: uint8 values are quantised between these (log-mel features); the input is in [-1, 1]
    partial         optional text: what the file lacks of the data set that it is taken from

An npz file is a zip of npy files. Pickled arrays are refused. The shape in an npy header is compared with the content's
size, and memory grows with what is read.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from edgefl.data.damage import damage_named, expect_end, read_exactly
from edgefl.data.dataset import Array, DataSet, listed, not_finite
from edgefl.errors import DataError

LARGEST_ID = 2**24  # of whole numbers that float32 holds one by one
MOST_UNSTATED = 1000  # classes that a file may have without saying so, however few examples there are


def read_npz(path: Path, group: str | None = None) -> DataSet:
    """The data set of that file, named after it.

    group   the key of the group ids, without "_train"; a missing key is an error only if it is named here
    Raises  DataError naming the file, the key, its value and what was expected.
    """
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        return _Reader(path, archive).data_set(group)


def read_integers(path: Path, keys: Sequence[str]) -> dict[str, Array]:
    """Those of the named arrays that the file has, as int32 [n]. Raises DataError like read_npz."""
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        reader = _Reader(path, archive)
        return {key: reader.integers(key) for key in keys if key in reader.keys}


def read_inputs(path: Path) -> Array:
    """What a model is run on: the array of an npy file as it is, or of an npz file x * scale + shift, as float32.

    Raises  DataError like read_npz.
    """
    if path.suffix == ".npy":
        with damage_named(str(path)), open(path, "rb") as stream:
            return _read_npy(stream, str(path))
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        reader = _Reader(path, archive)
        x = reader.array(reader.first("x", "x_test"))
        scale, shift = (np.float32(value) for value in reader.scaling(x))
        return x.astype(np.float32) * scale + shift


class _Reader:
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive = path, archive
        self.keys = {name.removesuffix(".npy") for name in archive.namelist()}
        self.listed = ", ".join(sorted(self.keys))

    def data_set(self, group: str | None) -> DataSet:
        x, y = self.images(self.first("x", "x_train")), self.targets(self.first("y", "y_train"))
        x_test = self.images("x_test") if "x_test" in self.keys else None
        y_test = self.targets("y_test") if "y_test" in self.keys else None
        groups, groups_test = self.groups(group)
        scale, shift = self.scaling(x)
        partial = str(self.array("partial")) if "partial" in self.keys else None
        name = self.path.stem
        return DataSet(name, x, y, self.classes(y), scale, shift, groups, partial, x_test, y_test, groups_test)

    def targets(self, key: str) -> Array:
        """Labels as int32 [N], values as float32 [N, outputs]."""
        y = self.array(key)
        if y.dtype.kind in "iu" and y.ndim == 1:
            return self.integers(key)
        if y.dtype.kind not in "biuf" or y.ndim not in (1, 2):
            raise DataError(
                f"{self.path}: {key} is {y.dtype} {y.shape}; expected integers [N], or numbers [N, outputs]"
            )
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(y if y.ndim == 2 else y[:, np.newaxis], np.float32)
        if (at := not_finite(values)) is not None:
            raise DataError(f"{self.path}: {key}[{listed(at)}] is {values[at]}; expected finite float32 values")
        return values

    def classes(self, y: Array) -> int:
        if y.ndim == 2:
            return int(y.shape[1])
        if "classes" in self.keys:
            stated = self.number("classes")
            if stated != int(stated) or not 1 <= stated < 2**31:
                raise DataError(f"{self.path}: classes is {stated:g}; expected an integer in [1, 2^31)")
            return int(stated)
        if "class_names" in self.keys:
            return self.array("class_names").size
        return self.unstated(int(y.max(initial=0)) + 1, len(y))

    def unstated(self, classes: int, examples: int) -> int:
        """The largest label + 1, unless that is far more than there are examples: one wrong label is no class."""
        if classes > max(examples, MOST_UNSTATED):
            raise DataError(
                f"{self.path}: y goes up to {classes - 1} with {examples} examples; expected labels from 0, or the "
                f"number of classes as `classes`"
            )
        return classes

    def scaling(self, x: Array) -> tuple[float, float]:
        if "scale" in self.keys or "shift" in self.keys:
            return self.number("scale"), self.number("shift")
        if "lo" in self.keys and x.dtype == np.uint8:
            return 2 / 255, -1.0
        return (1 / 255, 0.0) if x.dtype == np.uint8 else (1.0, 0.0)

    def groups(self, group: str | None) -> tuple[Array | None, Array | None]:
        for name in (group,) if group else ("group", "speaker"):
            key = name if name in self.keys else f"{name}_train"
            if key in self.keys:
                return self.integers(key), self.integers(f"{name}_test") if f"{name}_test" in self.keys else None
        if group:
            raise DataError(f"{self.path}: no {group} or {group}_train among {self.listed}; expected group ids")
        return None, None

    def first(self, *names: str) -> str:
        for name in names:
            if name in self.keys:
                return name
        raise DataError(f"{self.path}: no {' or '.join(names)} among {self.listed}; expected one of them")

    def images(self, key: str) -> Array:
        x = self.array(key)
        if x.ndim == 2 and x.dtype.kind in "iu" and x.dtype != np.uint8:
            return self.ids(key, x)
        if x.ndim not in (2, 3, 4) or (x.dtype != np.uint8 and x.dtype.kind != "f"):
            expected = "uint8 or float [N, H, W], [N, C, H, W] or [N, F], or integers [N, F]"
            raise DataError(f"{self.path}: {key} is {x.dtype} {x.shape}; expected {expected}")
        x = x[:, np.newaxis] if x.ndim == 3 else x
        if x.dtype == np.uint8:
            return np.ascontiguousarray(x)
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(x, np.float32)
        if (at := not_finite(values)) is not None:
            raise DataError(f"{self.path}: {key}[{listed(at)}] is {x[at]}; expected finite float32 values")
        return values

    def ids(self, key: str, x: Array) -> Array:
        """Whole numbers as float32, which holds those up to 2^24."""
        if x.size and max(abs(int(x.min())), int(x.max())) > LARGEST_ID:
            raise DataError(f"{self.path}: {key} is from {x.min()} to {x.max()}; expected ids of at most {LARGEST_ID}")
        return np.ascontiguousarray(x, np.float32)

    def integers(self, key: str) -> Array:
        values = self.array(key)
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise DataError(f"{self.path}: {key} is {values.dtype} {values.shape}; expected integers [N]")
        limits = np.iinfo(np.int32)
        if values.size and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
            raise DataError(f"{self.path}: {key} goes from {values.min()} to {values.max()}; expected 32-bit integers")
        return values.astype(np.int32)

    def number(self, key: str) -> float:
        if key not in self.keys:
            raise DataError(f"{self.path}: no {key}; expected scale and shift together")
        value = self.array(key)
        if value.shape != () or value.dtype.kind not in "iuf" or not np.isfinite(value):
            raise DataError(f"{self.path}: {key} is {value.dtype} {value.shape}; expected one finite number")
        return float(value)

    def array(self, key: str) -> Array:
        what = f"{self.path}: {key}"
        with damage_named(what), self.archive.open(f"{key}.npy") as stream:
            return _read_npy(cast(BinaryIO, stream), what)


def _read_npy(stream: BinaryIO, what: str) -> Array:
    shape, fortran, dtype = _npy_header(stream, what)
    data = read_exactly(stream, math.prod(shape) * dtype.itemsize, what)
    expect_end(stream, what)
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")


def _npy_header(stream: BinaryIO, what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise DataError(f"{what}: npy version {version}; expected (1, 0) or (2, 0)")
        shape, fortran, dtype = readers[version](stream)
    except ValueError as error:
        raise DataError(f"{what}: {error}; expected an npy file") from error
    if dtype.hasobject:
        raise DataError(f"{what}: pickled objects of type {dtype}; expected numbers or text")
    if any(not 0 <= extent < 2**40 for extent in shape) or dtype.itemsize == 0:
        raise DataError(f"{what}: shape {shape} of {dtype}; expected extents in [0, 2^40) and a type with a size")
    return shape, fortran, dtype

"""Labelled examples as named arrays, in an npz file or in npy files of one folder, with optional group ids.

    x or x_train    uint8 or float [N, H, W] or [N, C, H, W], or [N, F], features, or ids of words as any integers.
                    [N, C, L] and channels last are read only if the caller or the file states the axes
    axes            optional text: order of the axes of x (Reading.axes)
    missing         optional text: what happens to NaN in features [N, F] (Reading.missing)
    y or y_train    integers [N], labels from 0, or texts [N], names of classes, or values: float [N] or [N, outputs],
                    or integers [N, outputs]. With places: integers [N, *places], a label for each token or pixel, or
                    float [N, *shape]. --label x stands for the inputs themselves, as an autoencoder has them
    targets         optional text "labels": integers [N, T] are a label for each place, not T values
    x_test, y_test  optional test part, in the same types and shapes
    G or G_train, and G_test
                    optional integers or texts [N]: the origin of an example. G is "group", "speaker" or the name that
                    the caller gives. G_names: optional texts, names of the groups 0, 1, ...
    time            optional numbers or dates [N]: the time of an example
    vocabulary      optional number of word ids. Without it the largest id + 1
    class_names     optional texts: names of the labels
    classes         optional number of classes. Without it the length of `class_names`, or the largest label + 1, which
                    is then at most 1,000 or the number of examples
    scale, shift    optional: the input of the model is x * scale + shift. Without them uint8 is scaled to [0, 1], and
                    float is not scaled
    lo, hi          optional: uint8 values are quantised between lo and hi (log-mel features). The input is in [-1, 1]
    partial         optional text: what the file lacks of the data set that it is taken from

An npz file is a zip of npy files. Beside `digits_x.npy` the other arrays are `digits_y.npy` and so on. Pickled arrays
are refused. The shape in an npy header is compared with the size of the content, and memory grows with what is read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.array_source import ArraysInMemory, ArraySource, Entries, NpySource
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.column_choice import DROP, MEAN, Reading
from edgefl.experiment.data.dataset import Array, DataSet, Groups, listed, not_finite
from edgefl.experiment.data.label_meaning import alike
from edgefl.experiment.data.label_names import few, numbered
from edgefl.experiment.data.missing_values import CHOICES, settled
from edgefl.experiment.data.npy import read_array
from edgefl.experiment.data.target_reading import INPUTS, targets_of

LARGEST_ID = 2**24  # the bound up to which float32 holds every whole number
MOST_UNSTATED = 1000  # most classes of a small file that states no number


USED = ("label", "group", "time", "axes", "missing")
CHANNELS = (1, 3, 4)  # numbers of channels of pictures: grey, colours, colours with alpha
ORDER = {"NLC": (0, 2, 1), "NHWC": (0, 3, 1, 2)}  # how orders that a model does not take are transposed


def read_npz(path: Path, reading: Reading | None = None) -> DataSet:
    """Read the data set of a file, named after the file.

    reading  keys that differ from the names above (without "_train"), and the order of axes
    Raises   DataError naming the file, the key, its value and what was expected.
    """
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        return LabelledArrays(path, NpySource.of_zip(path, archive), reading).data_set(path.stem)


def read_arrays(arrays: Mapping[str, Array], name: str, reading: Reading) -> DataSet:
    """Read the data set that arrays in memory make, which are not copied where training can read them.

    Raises  DataError like read_npz, with `name` in place of the file
    """
    if pickled := sorted(key for key, array in arrays.items() if array.dtype.hasobject):
        found = arrays[pickled[0]].dtype
        raise DataError(f"{name}: {pickled[0]}: pickled objects of type {found}; expected numbers or text")
    return LabelledArrays(Path(name), ArraysInMemory(arrays), reading).data_set(name)


def read_npy(path: Path, reading: Reading | None = None) -> DataSet:
    """Read the data set whose x is in that file, `x.npy` or `NAME_x.npy`. Other arrays are in files of the same folder.

    Raises  DataError like read_npz.
    """
    stem = next((path.stem.removesuffix(end) for end in ("x_train", "x") if path.stem.endswith(end)), None)
    if stem is None:
        raise DataError(f"{path}; expected a file x.npy or NAME_x.npy, with y.npy or NAME_y.npy in the same folder")
    files = sorted(path.parent.glob(f"{_literal(stem)}*.npy"))
    entries = {each.stem.removeprefix(stem): partial(open, each, "rb") for each in files}
    name = stem.rstrip("_-.") or path.absolute().parent.name
    return LabelledArrays(path, NpySource(path, cast("Entries", entries)), reading).data_set(name)


def may_have_channels_last(shape: tuple[int, ...]) -> bool:
    """Return whether an x of this shape looks like pictures that have the channels as their last axis."""
    return len(shape) == 4 and shape[3] in CHANNELS and shape[1] not in CHANNELS


def _literal(text: str) -> str:
    """Return the name as a glob pattern that matches this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)


def read_integers(path: Path, keys: Sequence[str]) -> dict[str, Array]:
    """Return the named arrays that the file has, as int32 [n]. Raises DataError like read_npz."""
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        reader = LabelledArrays(path, NpySource.of_zip(path, archive))
        return {key: reader.integers(key) for key in keys if key in reader.keys}


def read_inputs(path: Path) -> Array:
    """Read inputs for a model: the array of an npy file as it is, or x * scale + shift of an npz file, as float32.

    Raises  DataError like read_npz.
    """
    if path.suffix == ".npy":
        with damage_named(str(path)), open(path, "rb") as stream:
            return read_array(stream, str(path))
    with damage_named(str(path)), zipfile.ZipFile(path) as archive:
        reader = LabelledArrays(path, NpySource.of_zip(path, archive))
        x = reader.array(reader.first("x", "x_test"))
        scale, shift = (np.float32(value) for value in reader.scaling(x))
        return x.astype(np.float32) * scale + shift


class LabelledArrays:
    """Named arrays that together make a data set. Every error is a DataError that names the file and the array."""

    def __init__(self, path: Path, source: ArraySource, reading: Reading | None = None) -> None:
        self.path, self.source, self.reading = path, source, reading or Reading()
        self.reading.check(str(path), *USED)
        self.keys = source.names()
        self.listed = few(sorted(self.keys))
        self.axes = self.reading.axes or Reading(axes=self.stated("axes")).axes
        self.missing = self.reading.missing or Reading(missing=self.stated("missing")).missing

    def stated(self, key: str) -> str:
        """Return the text under that key, which says how the file is to be read, or "" without such a key."""
        return str(self.array(key)) if key in self.keys else ""

    def data_set(self, name: str) -> DataSet:
        y, names = self.targets(self.label())
        x = self.inputs(self.of_rows(self.first("x", "x_train"), y))
        x_test = self.inputs("x_test") if "x_test" in self.keys else None
        tests = "x_test" if self.reading.label in INPUTS else "y_test"
        y_test, _ = self.targets(tests, names) if tests in self.keys else (None, ())
        y, y_test = alike(y, y_test)
        (groups, group_names), groups_test = self.groups()
        scale, shift = self.scaling(x)
        missing = str(self.array("partial")) if "partial" in self.keys else None
        found: dict[str, Any] = {"class_names": self.class_names(names), "group_names": group_names or None}
        found |= {"vocabulary": self.vocabulary(x)}
        x, found["absent"], rows, said = settled("x", x, self.missing)
        y, times = y[rows], self.times()
        groups, found["times"] = (None if each is None else each[rows] for each in (groups, times))
        if x_test is not None:
            x_test, found["absent_test"], rows, more = settled("x_test", x_test, self.missing)
            y_test, groups_test = (None if each is None else each[rows] for each in (y_test, groups_test))
            said += more
        found["notes"] = said
        classes = self.classes(y, names)
        found["are_classes_stated"] = "classes" in self.keys or "class_names" in self.keys
        return DataSet(name, x, y, classes, scale, shift, groups, missing, x_test, y_test, groups_test, **found)

    def of_rows(self, key: str, y: Array) -> str:
        """Return `key`. Raises DataError, before any unpacking, if the array's rows are not as many as the labels."""
        shape, dtype = self.source.form(key)
        if len(shape) in (2, 3, 4) and shape[0] != len(y):
            expected = f"{y.dtype} {(shape[0], *y.shape[1:])}, as {key} is {dtype} {shape}"
            raise DataError(f"{self.path}: y is {y.dtype} {y.shape}; expected {expected}")
        return key

    def label(self) -> str:
        return self.named(self.reading.label) if self.reading.label else self.first("y", "y_train")

    def named(self, name: str) -> str:
        """Return the key that the caller means. Raises DataError if there is no such key."""
        for key in (name, f"{name}_train"):
            if key in self.keys:
                return key
        raise DataError(f"{self.path}: no array {name} or {name}_train among {self.listed}; expected one of them")

    def targets(self, key: str, names: tuple[str, ...] = ()) -> Groups:
        return targets_of(self, key, names)

    def texts(self, key: str, texts: Array, names: tuple[str, ...]) -> Groups:
        """Return texts as ids, with their names. If `names` are given, the ids are positions among them."""
        ids, found = numbered(list(texts))
        if not names:
            return ids, found
        if unknown := sorted(set(found) - set(names)):
            raise DataError(f"{self.path}: {key} has {unknown[0]!r}; expected one of {few(names)}")
        positions = np.array([names.index(name) for name in found], np.int32)
        return positions[ids], names

    def class_names(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the names of the labels, from the labels themselves if they are texts, or else from the file."""
        if names or "class_names" not in self.keys:
            return names or None
        return self.names_of("class_names")

    def names_of(self, key: str) -> tuple[str, ...]:
        """Return the texts of an array, or () if there is no such array."""
        return tuple(str(name) for name in self.array(key).reshape(-1)) if key in self.keys else ()

    def times(self) -> Array | None:
        """Return numbers as they are, and dates as seconds since 1970."""
        key = self.named(self.reading.time) if self.reading.time else "time"
        if key not in self.keys:
            return None
        times = self.array(key)
        if times.ndim != 1 or times.dtype.kind not in "iufM":
            raise DataError(f"{self.path}: {key} is {times.dtype} {times.shape}; expected numbers or dates [N]")
        if times.dtype.kind == "M":
            times = times.astype("datetime64[us]").astype(np.int64) / 1e6
        return times.astype(np.float64)

    def vocabulary(self, x: Array) -> int | None:
        """Return the number of word ids, or None if x has no word ids."""
        if x.ndim != 2 or self.array_kind(self.first("x", "x_train")) not in "iu" or x.dtype == np.uint8:
            return None
        if x.size and x.min() < 0:
            return None
        return int(self.number("vocabulary")) if "vocabulary" in self.keys else int(x.max(initial=0)) + 1

    def classes(self, y: Array, names: tuple[str, ...]) -> int:
        if (y.ndim >= 2 and y.dtype == np.float32) or names:
            return len(names) or int(y.shape[1])
        if "classes" in self.keys:
            stated = self.number("classes")
            if stated != int(stated) or not 1 <= stated < 2**31:
                raise DataError(f"{self.path}: classes is {stated:g}; expected an integer in [1, 2^31)")
            return int(stated)
        if "class_names" in self.keys:
            return self.array("class_names").size
        return self.unstated(int(y.max(initial=0)) + 1, len(y))

    def unstated(self, classes: int, examples: int) -> int:
        """Return `classes`, or raise DataError if it far exceeds the examples, as one wrong label is not a class."""
        if classes > max(examples, MOST_UNSTATED):
            raise DataError(
                f"{self.path}: y goes up to {classes - 1} with {examples} examples; expected labels from 0, or the "
                f"number of classes as `classes`; numbers to be learnt (loss=mse) need a floating-point type"
            )
        return classes

    def scaling(self, x: Array) -> tuple[float, float]:
        if "scale" in self.keys or "shift" in self.keys:
            return self.number("scale"), self.number("shift")
        if "lo" in self.keys and x.dtype == np.uint8:
            return 2 / 255, -1.0
        return (1 / 255, 0.0) if x.dtype == np.uint8 else (1.0, 0.0)

    def groups(self) -> tuple[tuple[Array | None, tuple[str, ...]], Array | None]:
        """Return the groups of the pool, with names if they are texts, and the groups of the test part."""
        wanted = self.reading.group
        for name in (wanted,) if wanted else ("group", "speaker"):
            key = name if name in self.keys else f"{name}_train"
            if key in self.keys:
                ids, names = self.people(key)
                names = names or self.names_of(f"{name}_names")
                test = self.people(f"{name}_test", names)[0] if f"{name}_test" in self.keys else None
                return (ids, names), test
        if wanted:
            raise DataError(f"{self.path}: no {wanted} or {wanted}_train among {self.listed}; expected group ids")
        return (None, ()), None

    def people(self, key: str, names: tuple[str, ...] = ()) -> Groups:
        values = self.array(key)
        if values.dtype.kind == "U" and values.ndim == 1:
            return self.texts(key, values, names)
        return self.integers(key), ()

    def first(self, *names: str) -> str:
        for name in names:
            if name in self.keys:
                return name
        raise DataError(f"{self.path}: no array {' or '.join(names)} among {self.listed}; expected one of them")

    def inputs(self, key: str) -> Array:
        x = self.in_order(key, self.array(key))
        if x.ndim == 2 and x.dtype.kind in "iu" and x.dtype != np.uint8:
            return self.ids(key, x)
        if x.ndim not in (2, 3, 4) or (x.dtype != np.uint8 and x.dtype.kind != "f"):
            expected = "uint8 or float [N, H, W], [N, C, H, W] or [N, F], or integers [N, F]"
            raise DataError(f"{self.path}: {key} is {x.dtype} {x.shape}; expected {expected}")
        if x.ndim == 3 and self.axes not in ("NCL", "NLC"):
            x = x[:, np.newaxis]
        if x.dtype == np.uint8:
            return np.ascontiguousarray(x)
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(x, np.float32)
        may_lack = values.ndim == 2 and self.missing in (MEAN, DROP)
        if (at := not_finite(np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) if may_lack else values)) is not None:
            cure = f", or {CHOICES}" if values.ndim == 2 and np.isnan(values[at]) else ""
            raise DataError(f"{self.path}: {key}[{listed(at)}] is {x[at]}; expected finite float32 values{cure}")
        return values

    def in_order(self, key: str, x: Array) -> Array:
        """Return the array with its axes in the order of a model's inputs."""
        axes = self.axes
        if axes and len(axes) != x.ndim:
            raise DataError(f"{self.path}: {key} is {x.dtype} {x.shape}; expected {len(axes)} axes, {axes}")
        if not axes and may_have_channels_last(x.shape):
            told = f"axes=NHWC if the last {x.shape[3]} are channels, axes=NCHW if the first {x.shape[1]} are (--axes)"
            raise DataError(f"{self.path}: {key} is {x.dtype} {x.shape}; expected {told}")
        return np.transpose(x, ORDER[axes]) if axes in ORDER else x

    def ids(self, key: str, x: Array) -> Array:
        """Return whole numbers as float32, which holds whole numbers up to 2^24 exactly."""
        if x.size and max(abs(int(x.min())), int(x.max())) > LARGEST_ID:
            raise DataError(f"{self.path}: {key} is from {x.min()} to {x.max()}; expected ids of at most {LARGEST_ID}")
        return np.ascontiguousarray(x, np.float32)

    def integers(self, key: str) -> Array:
        return self.as_int32(key, self.array(key))

    def as_int32(self, key: str, values: Array) -> Array:
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
        return self.source.array(key)

    def array_kind(self, key: str) -> str:
        return self.source.form(key)[1].kind

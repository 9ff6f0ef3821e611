"""DataSet: labelled examples in memory, as a value. A data set reads no file and does not know the clients.

A data set has one pool of examples, and a test part where its publisher made one. partition.py decides which client
owns which example.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefl.errors import DataError
from edgefl.experiment.data.scales import Standardisation

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Groups = tuple[Array, tuple[str, ...]]  # ids and their names


@dataclass(frozen=True, eq=False)
class DataSet:
    """The examples of one problem, with labels or with values to predict.

    name                         name of the data set
    x                            uint8 or float32 [N, C, H, W], [N, C, L] or [N, F]. A model's input is x * scale +
                                 shift
    y                            int32 [N], labels in [0, classes), or int32 [N, *places], a label for each place of a
                                 model's output, or float32 [N, classes] or [N, classes, *places], a value for each
                                 output of a model
    classes                      number of classes, or of outputs of a model
    scale, shift                 numbers that turn x into the input of a model
    groups                       int32 [N], the group of each example (a speaker, an alphabet). A negative number: the
                                 group is not known. None: groups are not recorded
    partial                      sentence that says what is missing, if this is a part of the published data set
    x_test, y_test, groups_test  published test part, in the types and shapes of the training part. None: no test part
    times                        float64 [N], time of each example in any unit. None: times are not recorded
    class_names                  names of the labels. None: the labels are numbers
    group_names                  names of the groups. None: the groups are numbers
    columns                      names of the features of [N, F]
    vocabulary                   number of word ids, where x has ids [N, F]. None: x has features
    notes                        sentences for the user: how the reader understood the file, and what the reader did to
                                 the values
    absent                       bool [N, F], true where x has no value in the file and a mean takes its place. None: x
                                 has all values
    absent_test                  bool [N, F] for x_test, like `absent`
    label_values                 whole numbers that the labels 0, 1, ... were in the file or array. None: the labels
                                 themselves
    are_classes_stated           whether the file states the number of classes, so that labels are taken as they are
    standardised                 scales by which x, and a numeric y, were standardised (scales.py). None: they were not
                                 standardised
    Raises                       DataError that names the field, its value and the expected value
    """

    name: str
    x: Array
    y: Array
    classes: int
    scale: float
    shift: float
    groups: Array | None = None
    partial: str | None = None
    x_test: Array | None = None
    y_test: Array | None = None
    groups_test: Array | None = None
    times: Array | None = None
    class_names: tuple[str, ...] | None = None
    group_names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    vocabulary: int | None = None
    notes: tuple[str, ...] = ()
    absent: Array | None = None
    absent_test: Array | None = None
    label_values: tuple[int, ...] | None = None
    are_classes_stated: bool = False
    standardised: Standardisation | None = None

    def __post_init__(self) -> None:
        _check(self.name, "", self.x, self.y, self.groups, self.classes)
        _check_times(self.name, self.times, len(self.x))
        if (self.x_test is None) != (self.y_test is None):
            raise DataError(f"{self.name}: only one of x_test and y_test is given; expected both or neither")
        _check_scaling(self.name, self.x, self.scale, self.shift)
        if self.x_test is not None and self.y_test is not None:
            _check_scaling(self.name, self.x_test, self.scale, self.shift)
            _check(self.name, "_test", self.x_test, self.y_test, self.groups_test, self.classes)
            if self.x_test.shape[1:] != self.x.shape[1:] or self.x_test.dtype != self.x.dtype:
                raise DataError(
                    f"{self.name}: x_test is {self.x_test.dtype} {self.x_test.shape[1:]}; "
                    f"expected {self.x.dtype} {self.x.shape[1:]} as in x"
                )

    def __len__(self) -> int:
        """Return the number of examples in the pool, without the test part."""
        return len(self.y)

    @property
    def input_shape(self) -> Shape:
        """Return the shape of one input: (channels, height, width), (channels, length), or (number of features,)."""
        return self.x.shape[1:]

    @property
    def has_labels(self) -> bool:
        """Return whether the examples have classes, and not values to predict."""
        return bool(self.y.dtype == np.int32)

    @property
    def has_classes(self) -> bool:
        """Return whether each example has one class, by which examples can be partitioned."""
        return self.has_labels and self.y.ndim == 1

    def group_sizes(self) -> tuple[Array, Array]:
        """Return the ids of the groups in ascending order, and the number of examples of each group."""
        assert self.groups is not None
        ids, sizes = np.unique(self.groups[self.groups >= 0], return_counts=True)
        return ids, sizes

    def name_of_group(self, group: int) -> str:
        """Return the name of a group."""
        names = self.group_names
        return repr(names[group]) if names is not None and 0 <= group < len(names) else str(group)

    def without_small_groups(self, fewest: int) -> DataSet:
        """Take the examples of groups with fewer than `fewest` examples out of every group. Raises DataError if no
        group is left.
        """
        if self.groups is None:
            raise DataError(f"{self.name}: fewest={fewest} for data without groups; expected data with groups")
        ids, sizes = self.group_sizes()
        if not (sizes >= fewest).any():
            largest = int(sizes.max(initial=0))
            raise DataError(
                f"{self.name}: fewest={fewest}, the largest group has {largest} samples; expected fewest <= {largest}"
            )
        groups = np.where(np.isin(self.groups, ids[sizes >= fewest]), self.groups, np.int32(-1))
        return replace(self, groups=groups.astype(np.int32))

    def with_notes(self, *notes: str) -> DataSet:
        """Return the same examples with these notes before the present notes."""
        return replace(self, notes=(*notes, *self.notes)) if notes else self

    def with_nan(self) -> Array:
        """Return x with NaN in place of each absent value, or x itself if no value is absent."""
        return self.x if self.absent is None else np.where(self.absent, np.float32(np.nan), self.x)

    def pooled(self) -> DataSet:
        """Return all examples in one pool, the test part last. The pool has groups if both parts have groups."""
        if self.x_test is None or self.y_test is None:
            return self
        groups = None
        if self.groups is not None and self.groups_test is not None:
            groups = np.concatenate([self.groups, self.groups_test])
        masks = (self.x, self.absent), (self.x_test, self.absent_test)
        has_all = self.absent is None and self.absent_test is None
        absent = None if has_all else np.concatenate([_absent(x, mask) for x, mask in masks])
        return replace(
            self, x=np.concatenate([self.x, self.x_test]), y=np.concatenate([self.y, self.y_test]), groups=groups,
            x_test=None, y_test=None, groups_test=None, times=None, absent=absent, absent_test=None,
        )  # fmt: skip


def _absent(x: Array, absent: Array | None) -> Array:
    return np.zeros(x.shape, bool) if absent is None else absent


def _check(name: str, suffix: str, x: Array, y: Array, groups: Array | None, classes: int) -> None:
    if x.ndim not in (2, 3, 4) or x.dtype not in (np.uint8, np.float32) or not x.flags.c_contiguous:
        expected = "contiguous uint8 or float32 [N, C, H, W], [N, C, L] or [N, F]"
        raise DataError(f"{name}: x{suffix} is {x.dtype} {x.shape}; expected {expected}")
    if y.dtype == np.float32:
        _check_values(name, suffix, y, (len(x), classes))
    elif y.shape[:1] != (len(x),) or y.dtype != np.int32 or not y.flags.c_contiguous:
        each = f"int32 ({len(x)},), one for each of the {len(x)} samples of x{suffix}"
        raise DataError(f"{name}: y{suffix} is {y.dtype} {y.shape}; expected {each}")
    if groups is not None and (groups.shape != (len(x),) or groups.dtype != np.int32):
        each = f"int32 ({len(x)},), one for each of the {len(x)} samples of x{suffix}"
        raise DataError(f"{name}: groups{suffix} is {groups.dtype} {groups.shape}; expected {each}")
    if (position := not_finite(x)) is not None:
        raise DataError(f"{name}: x{suffix}[{listed(position)}] is {x[position]}; expected finite values")
    wrong = (y < 0) | (y >= classes)
    if y.dtype == np.int32 and y.ndim == 1 and wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(f"{name}: y{suffix}[{at}] is {y[at]}; expected 0 <= label < {classes}")


def _check_times(name: str, times: Array | None, examples: int) -> None:
    if times is None:
        return
    if times.shape != (examples,) or times.dtype != np.float64:
        raise DataError(f"{name}: times is {times.dtype} {times.shape}; expected float64 ({examples},)")
    if (position := not_finite(times)) is not None:
        raise DataError(f"{name}: times[{listed(position)}] is {times[position]}; expected finite values")


def _check_values(name: str, suffix: str, y: Array, shape: tuple[int, int]) -> None:
    if y.shape[:2] != shape or not y.flags.c_contiguous:
        raise DataError(f"{name}: y{suffix} is {y.dtype} {y.shape}; expected contiguous float32 {shape}")
    if (position := not_finite(y)) is not None:
        raise DataError(f"{name}: y{suffix}[{listed(position)}] is {y[position]}; expected finite values")


def _check_scaling(name: str, x: Array, scale: float, shift: float) -> None:
    """Raise DataError if a model's input would not fit float32, for example with a scale of 1e300."""
    most = max(abs(float(x.min())), abs(float(x.max()))) if x.size else 0.0
    if not abs(scale) * most + abs(shift) <= float(np.finfo(np.float32).max):
        scaling = f"values up to {most:.3g} with scale {scale:.3g} and shift {shift:.3g}"
        raise DataError(f"{name}: {scaling}; expected inputs that float32 holds")


def not_finite(x: Array) -> tuple[int, ...] | None:
    """Return the position of the first NaN or infinity, starting with the row, or None if all values are finite."""
    if x.dtype.kind != "f" or not x.size or (np.isfinite(x.min()) and np.isfinite(x.max())):
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmin(np.isfinite(x))), x.shape))


def listed(position: tuple[int, ...]) -> str:
    """Write a position in an array as it stands between the brackets of an index."""
    return ", ".join(map(str, position))

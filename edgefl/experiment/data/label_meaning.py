"""The meaning of the targets of the user's data: classes, decisions or numbers. The rule is the table in docs/data.md.

A reader gives whole numbers from 0 and texts as labels, int32 [N], and everything else as values, float32 [N, outputs].
Here the values and the loss decide what is learnt. The rule is the same for a table, arrays and a file of arrays. A
note says how the targets were understood. No file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.learning.losses import BinaryCrossEntropy, Loss

MOST_CLASSES = 20  # most distinct whole numbers, written with a decimal point or below 0, that are taken for classes
FEWEST_EACH = 2  # fewest samples that such a class has on average
LARGEST_LABEL = 1000  # a label from here on is taken for a number, unless there are more samples than that
LARGEST_ID = 2**24  # float32 holds every whole number up to this one
LISTED = 6  # number of labels that a sentence names

FOR_NUMBERS = "for numbers give loss=mse"
FOR_CLASSES = "for classes give loss=cross-entropy"


def meant(data: DataSet, loss: Loss | None) -> DataSet:
    """Return the data with labels in [0, classes) where the targets are classes, and with a note that says so.

    loss    the loss that the user has asked for. None: the targets decide
    Raises  DataError if the targets of the test part are of another kind than the targets of the pool.
    """
    if loss is not None and not loss.has_labels:
        return _as_values(data, loss)
    if data.has_labels and not data.has_classes:
        return _of_places(data)
    if data.has_labels:
        return _labels(data)
    if data.y.ndim > 2:
        return _said(data, f"{_extents(data.y.shape[1:])} values for each sample")
    if data.are_classes_stated:
        return data
    return _column(data, loss) if data.y.shape[1] == 1 else _matrix(data, loss)


def largest_label(samples: int) -> int:
    """Return the bound for labels: a whole number from it on is not a label, unless the number of classes is stated."""
    return max(samples, LARGEST_LABEL)


def are_numbers(whole: Array) -> bool:
    """Return whether whole numbers [N] cannot be labels: one is below 0, or more than half of them are too large. If
    fewer are too large, these are wrong labels, which are refused elsewhere.
    """
    too_large = int((whole >= largest_label(len(whole))).sum())
    return bool(len(whole)) and (int(whole.min()) < 0 or 2 * too_large > len(whole))


def alike(y: Array, y_test: Array | None) -> tuple[Array, Array | None]:
    """Return the targets of pool and test part in one type. If only one of them has values, both become values. This
    happens for example with targets -1 and 1 where one part has only 1.
    """
    if y_test is None or y.dtype == y_test.dtype:
        return y, y_test
    if y.dtype == np.int32:
        return (y.astype(np.float32)[:, np.newaxis], y_test) if y_test.shape[1] == 1 else (y, y_test)
    return (y, y_test.astype(np.float32)[:, np.newaxis]) if y.shape[1] == 1 else (y, y_test)


def _labels(data: DataSet) -> DataSet:
    """Keep labels that begin at 0. Number other labels in their order."""
    if data.class_names is not None:
        return _said(data, f"{data.classes} classes, {_listed(data.class_names)}")
    if len(data.y) and int(data.y.min()) > 0 and not data.are_classes_stated:
        return _in_order(data, data.y, data.y_test, "")
    missing = np.setdiff1d(np.arange(min(data.classes, len(data.y))), data.y)
    gap = f"; no sample has label {missing[0]}" if len(missing) else ""
    return _said(data, f"{data.classes} {_classes(data.classes)}, labels 0..{data.classes - 1}{gap}")


def _column(data: DataSet, loss: Loss | None) -> DataSet:
    """Take values [N, 1] as classes if they are few whole numbers, or if the loss needs labels, or else as numbers."""
    values = data.y[:, 0].astype(np.float64)
    is_whole = bool((values == np.floor(values)).all())
    if not is_whole or not (loss is not None or _is_few(values)):
        if loss is not None:
            return data  # refused where the loss takes its targets
        kind = "whole numbers" if is_whole else "numbers"
        found = f"{kind} from {values.min():g} to {values.max():g}, squared error (loss=mse); {FOR_CLASSES}"
        return _said(data, found if is_whole else found.replace(FOR_CLASSES, "for classes give whole numbers or text"))
    test = None if data.y_test is None else data.y_test[:, 0]
    return _in_order(data, values, test, "" if loss is not None else f"; {FOR_NUMBERS}")


def _is_few(values: Array) -> bool:
    distinct = len(np.unique(values))
    is_small = bool((np.abs(values) < largest_label(len(values))).all())
    return is_small and distinct <= MOST_CLASSES and FEWEST_EACH * distinct <= len(values)


def _in_order(data: DataSet, y: Array, y_test: Array | None, otherwise: str) -> DataSet:
    """Return whole numbers as labels. They stay as they are if the smallest is 0, or else are numbered in order."""
    known = np.unique(y).astype(np.int64)
    if known[0] == 0:
        if known[-1] >= largest_label(len(y)):
            found = f"y goes up to {known[-1]} with {len(y)} examples"
            raise DataError(f"{data.name}: {found}; expected labels from 0, or {FOR_NUMBERS}")
        known = np.arange(known[-1] + 1)
    values = None if known[0] == 0 else tuple(map(int, known))
    taken = replace(
        data, y=_places(data, y, known), y_test=None if y_test is None else _places(data, y_test, known),
        classes=len(known), class_names=None if values is None else tuple(map(str, values)), label_values=values,
    )  # fmt: skip
    return _said(taken, f"{len(known)} {_classes(len(known))}, labels {_range(known)}{otherwise}")


def _places(data: DataSet, y: Array, known: Array) -> Array:
    """Return int32 [N], the positions of the values among the known labels. Raises DataError for an unknown value."""
    if len(strange := np.setdiff1d(y, known)):
        raise DataError(f"{data.name}: y_test has {strange[0]:g}; expected one of the labels of y, {_range(known)}")
    return np.searchsorted(known, y).astype(np.int32)


def _matrix(data: DataSet, loss: Loss | None) -> DataSet:
    """Take values [N, K] as classes if each row has a single 1, as decisions if all are 0 or 1, and else as numbers."""
    outputs, parts = data.y.shape[1], [data.y] if data.y_test is None else [data.y, data.y_test]
    if loss is not None and all(_may_be_places(part) for part in parts):
        y, *test = (part.astype(np.int32) for part in parts)
        return _of_places(replace(data, y=y, y_test=test[0] if test else None, classes=int(y.max(initial=0)) + 1))
    if all(is_one_hot(part) for part in parts):
        labels, *test = (part.argmax(1).astype(np.int32) for part in parts)
        taken = replace(data, y=labels, y_test=test[0] if test else None, classes=outputs)
        otherwise = "" if loss is not None else f"; for {outputs} decisions give loss=bce"
        return _said(taken, f"{outputs} classes, one-hot rows{otherwise}")
    if loss is not None:
        return data
    if all(bool(((part == 0) | (part == 1)).all()) for part in parts):
        return _said(data, f"{outputs} decisions of 0 or 1 for each sample (loss=bce); {FOR_NUMBERS}")
    return _said(data, f"{outputs} numbers for each sample, squared error (loss=mse)")


def _may_be_places(y: Array) -> bool:
    """Return whether values [N, T] are whole numbers, of which a label for each of T places may be made."""
    return bool((y == np.floor(y)).all()) and not is_one_hot(y) and bool((np.abs(y) < LARGEST_ID).all())


def _of_places(data: DataSet) -> DataSet:
    return _said(data, f"a label for each of {_extents(data.y.shape[1:])} places, up to {data.y.max(initial=0)}")


def _extents(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def is_one_hot(y: Array) -> bool:
    """Return whether each row of values [N, K] has a single 1 and otherwise 0."""
    return bool(len(y)) and bool(((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all())


def _as_values(data: DataSet, loss: Loss) -> DataSet:
    """Keep values as they are. For decisions, number two labels other than 0 and 1 in their order."""
    if data.y.ndim > 2 or (data.has_labels and not data.has_classes):
        return _said(data, f"{_extents(data.y.shape[1:])} targets for each sample, as loss={loss} asks")
    outputs = 1 if data.has_labels else data.y.shape[1]
    if not isinstance(loss, BinaryCrossEntropy):
        return _said(data, f"{_counted(outputs, 'number')} for each sample, as loss={loss} asks")
    known = np.unique(data.y) if outputs == 1 else np.zeros(0)
    if len(known) != 2 or known.tolist() == [0, 1] or not (known == np.floor(known)).all():
        return _said(data, f"{_counted(outputs, 'decision')} for each sample, as loss={loss} asks")
    known = known.astype(np.int64)
    test = None if data.y_test is None else _places(data, data.y_test.reshape(-1), known)
    taken = replace(data, y=_places(data, data.y.reshape(-1), known), y_test=test, classes=2)
    taken = replace(taken, label_values=tuple(map(int, known)))
    return _said(taken, f"{known[0]} and {known[1]} as the decisions 0 and 1, as loss={loss} asks")


def _said(data: DataSet, what: str) -> DataSet:
    return replace(data, notes=(*data.notes, f"y: {what}"))


def _counted(count: int, word: str) -> str:
    return f"a {word}" if count == 1 else f"{count} {word}s"


def _classes(count: int) -> str:
    return "class" if count == 1 else "classes"


def _range(known: Array) -> str:
    """Write labels in words: the first and the last if there is no gap between them, or else some of them."""
    if len(known) > 1 and known[-1] - known[0] == len(known) - 1:
        return f"{known[0]:g}..{known[-1]:g}"
    return _listed([f"{label:g}" for label in known])


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more

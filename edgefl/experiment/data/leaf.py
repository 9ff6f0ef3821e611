"""LEAF's files: JSON with `users` and, for each user, `user_data` of x and y, in one file or in folders train and test.

Every user is a group. Rows of 784 numbers are 28 x 28 pixels (FEMNIST). Texts of one length are ids of their letters
(Shakespeare). Caldas et al., arXiv:1812.01097, and the README of LEAF's repository describe the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.array_source import ArraysInMemory
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.dataset import Array, DataSet
from edgefl.experiment.data.npz import LabelledArrays

PIXELS = 28  # rows and columns of FEMNIST's images
AS_PIXELS = f"the {PIXELS**2} values of a sample are taken as {PIXELS} x {PIXELS} pixels (--axes NF: as features)"
Part = tuple[list[Any], list[Any], list[str]]  # x, y and user of each example


def is_leaf(found: Any) -> bool:
    """Return whether an object is the content of a LEAF file."""
    return isinstance(found, dict) and isinstance(found.get("users"), list) and isinstance(found.get("user_data"), dict)


def has_leaf(folder: Path) -> bool:
    """Return whether a folder has LEAF's folder of training files."""
    return any((folder / "train").glob("*.json")) if (folder / "train").is_dir() else False


def read_leaf(folder: Path, reading: Reading | None = None) -> DataSet:
    """Read the data set of train/*.json and, if there are some, test/*.json. Raises DataError naming the file."""
    found: dict[str, list[Any]] = {"train": [], "test": []}
    for part, contents in found.items():
        for path in sorted((folder / part).glob("*.json")):
            with damage_named(str(path)):
                contents.append(json.loads(path.read_text("utf-8")))
            if not is_leaf(contents[-1]):
                raise DataError(f"{path}: no users and user_data; expected a file of LEAF")
    return leaf_data_set(folder, found["train"], found["test"], reading)


def leaf_data_set(path: Path, train: Sequence[Any], test: Sequence[Any], reading: Reading | None) -> DataSet:
    """Make a data set of the contents of LEAF files. Raises DataError that names the user and the expected value."""
    parts = {"": _examples(path, train)} | ({"_test": _examples(path, test)} if test else {})
    arrays: dict[str, Any] = {}
    letters = _letters(list(parts.values()))
    notes: tuple[str, ...] = ()
    for suffix, (x, y, users) in parts.items():
        values = _inputs(path, x, letters)
        if values.shape[1:] == (PIXELS * PIXELS,) and not (reading and reading.axes):
            values, notes = values.reshape(-1, PIXELS, PIXELS), (AS_PIXELS,)
        arrays |= {f"x{suffix}": values, f"y{suffix}": _labels(y, letters), f"group{suffix}": np.array(users)}
    if letters:
        arrays |= {"vocabulary": np.array(len(letters)), "class_names": np.array(list(letters))}
        notes += (f"texts become ids of {len(letters)} different characters",)
    found = LabelledArrays(path, ArraysInMemory(arrays), reading).data_set(path.stem)
    return found.with_notes(*notes)


def _examples(path: Path, contents: Sequence[Any]) -> Part:
    x: list[Any] = []
    y: list[Any] = []
    users: list[str] = []
    for content in contents:
        for user in content["users"]:
            own = content["user_data"].get(user)
            is_whole = isinstance(own, Mapping) and all(isinstance(own.get(name), list) for name in "xy")
            if not is_whole or len(own["x"]) != len(own["y"]):
                raise DataError(f"{path}: user {user!r} has no x and y of one length; expected both in user_data")
            x += own["x"]
            y += own["y"]
            users += [str(user)] * len(own["y"])
    return x, y, users


def _letters(parts: Sequence[Part]) -> str:
    """Return all letters of the texts, in order. The result is "" if x has no texts."""
    texts = [text for x, y, _ in parts for text in (*x, *y) if isinstance(text, str)]
    is_text = all(isinstance(text, str) for x, _, _ in parts for text in x)
    return "".join(sorted(set("".join(texts)))) if texts and is_text else ""


def _inputs(path: Path, x: Sequence[Any], letters: str) -> Array:
    if letters:
        lengths = {len(text) for text in x}
        if len(lengths) > 1:
            raise DataError(
                f"{path}: texts of {min(lengths)} to {max(lengths)} characters; expected texts of one length"
            )
        return np.array([[letters.index(letter) for letter in text] for text in x], np.int64)
    try:
        found = np.array(x, np.float64)
    except (ValueError, TypeError):
        kind = next((type(each).__name__ for each in x if not isinstance(each, list)), "lists of several lengths")
        raise DataError(
            f"{path}: x has {kind}; expected equally many numbers for each sample, or texts of one length"
        ) from None
    return found if found.dtype != object and found.ndim > 1 else found[:, np.newaxis]


def _labels(y: Sequence[Any], letters: str) -> Array:
    if letters and all(isinstance(each, str) and len(each) == 1 for each in y):
        return np.array([letters.index(each) for each in y], np.int64)
    return np.array(y)

"""Tables as JSON: an object for each example, one on each line (.jsonl) or all in one list (.json).

LEAF's files, which are JSON too, are read by leaf.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.csv_table import data_set_of
from edgefl.experiment.data.dataset import DataSet
from edgefl.experiment.data.leaf import is_leaf, leaf_data_set
from edgefl.experiment.data.table_cells import Column, TableCells, rows_of_numbers


def read_json(path: Path, reading: Reading | None = None) -> DataSet:
    """Read the data set of a file of LEAF, or of a list of objects. Raises DataError naming what was expected."""
    with damage_named(str(path)):
        found = json.loads(path.read_text("utf-8"))
    if is_leaf(found):
        return leaf_data_set(path, [found], [], reading)
    return data_set_of(_cells(path, _objects(path, found), "object"), reading, path.stem)


def read_cells(path: Path, reading: Reading | None = None) -> TableCells:
    """Read the columns of a .jsonl file, or of a .json file of objects. Raises DataError naming the faulty line."""
    with damage_named(str(path)):
        text = path.read_text("utf-8")
    if path.suffix.lower() == ".json":
        with damage_named(str(path)):
            return _cells(path, _objects(path, json.loads(text)), "object")
    rows = {}
    for at, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows[at] = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {at}: {error}; expected an object on each line") from None
    return _cells(path, rows, "line")


def _objects(path: Path, found: Any) -> dict[int, Any]:
    if not isinstance(found, list):
        raise DataError(
            f"{path}: {type(found).__name__}; expected a list of objects, or users and user_data as in LEAF"
        )
    return dict(enumerate(found, 1))


def _cells(path: Path, rows: Mapping[int, Any], place: str) -> TableCells:
    for at, row in rows.items():
        if not isinstance(row, dict):
            raise DataError(f'{path}: {place} {at} is {type(row).__name__}; expected an object, as {{"a": 1, "y": 0}}')
    if not rows:
        raise DataError(f"{path}: 0 objects; expected one object for each example")
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = {name: _column(path, name, [row.get(name) for row in rows.values()]) for name in names}
    return TableCells(path, columns, list(rows), place)


def _column(path: Path, name: str, values: Sequence[Any]) -> Column:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, list) for value in present):
        return rows_of_numbers(path, name, values)
    if any(isinstance(value, list | dict) for value in present):
        raise DataError(f"{path}: column {name} contains objects; expected numbers, texts, or lists of numbers")
    if present and all(type(value) in (int, float) for value in present):
        is_whole = len(present) == len(values) and all(type(value) is int and abs(value) < 2**63 for value in values)
        return np.array(values, np.int64 if is_whole else np.float64)
    return ["" if value is None else str(value).strip() for value in values]

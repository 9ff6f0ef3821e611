"""Folders that `save_to_disk` of Hugging Face's `datasets` writes: one Dataset, or a DatasetDict with a folder for each
split. arrow_table.py reads the files of a folder.

A Dataset has `state.json`, which lists its Arrow files in order. A DatasetDict has `dataset_dict.json`, which lists its
splits. The samples of `test`, or of `validation` without a `test`, are the published test part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data import arrow_table
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.images import PARTS, parts_note, tests_among
from edgefl.experiment.data.optional_package import check_installed
from edgefl.experiment.data.table_cells import TableCells

STATE, SPLITS = "state.json", "dataset_dict.json"


def read_cells(path: Path, reading: Reading | None = None) -> TableCells:
    """Read the columns of a folder. The row numbers count through the files of all splits.

    Raises  DataError naming the file and what was expected, or saying that pyarrow is missing.
    """
    check_installed(path, "pyarrow")
    if not (path / SPLITS).is_file():
        return arrow_table.cells_of(path, _tables(path), reading)
    splits = _splits(path)
    tests = tests_among(splits)
    tables = {split: _tables(path / split) for split in splits}
    cells = arrow_table.cells_of(path, [each for found in tables.values() for each in found], reading)
    is_test = np.concatenate([np.full(sum(map(len, found)), split in tests) for split, found in tables.items()])
    return replace(cells, tests=is_test, notes=(parts_note(splits, tests), *cells.notes))


def _splits(path: Path) -> list[str]:
    splits = _listed(path / SPLITS, "splits")
    other = next((split for split in splits if split.lower() not in PARTS), None)
    if other is not None:
        raise DataError(
            f"{path} has the split {other!r}; expected only train, validation and test, or one split: {path / other}"
        )
    if set(splits) == tests_among(splits):
        raise DataError(f"{path} has {' and '.join(splits) or 'no split'}; expected train as well")
    return splits


def _tables(folder: Path) -> list[Any]:
    """Return the tables of a Dataset's files, in order."""
    files = _listed(folder / STATE, "_data_files")
    return [arrow_table.opened(folder / name) for name in files]


def _listed(file: Path, key: str) -> list[str]:
    """Return the names that a file of JSON lists. A name may not lead out of the folder."""
    with damage_named(str(file)):
        found = json.loads(file.read_text("utf-8"))
    listed = found.get(key) if isinstance(found, dict) else None
    names = [each.get("filename") if isinstance(each, dict) else each for each in _sequence(listed)]
    wrong = next((name for name in names if not isinstance(name, str) or Path(name).name != name), None)
    if wrong is not None or not isinstance(listed, list):
        raise DataError(f"{file}: {key} is {listed!r}; expected names in this folder, as save_to_disk writes them")
    return [str(name) for name in names]


def _sequence(listed: Any) -> Sequence[Any]:
    return listed if isinstance(listed, list) else []

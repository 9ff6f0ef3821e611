"""Labelled examples in a table, one row for each example, from a CSV file or from the cells of another file.
csv_text.py reads the cells.

Every column that is neither the label, the group, the time nor dropped is an input (feature_columns.py). A label is a
class or a value to predict. Whole numbers from 0 and texts are classes. Numbers with a fraction are values. Times are
numbers or ISO dates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.column_choice import DROP, Reading
from edgefl.experiment.data.csv_text import plain, read_csv
from edgefl.experiment.data.dataset import Array, DataSet, Groups
from edgefl.experiment.data.feature_columns import Features, features, is_number
from edgefl.experiment.data.label_meaning import are_numbers, largest_label
from edgefl.experiment.data.label_names import numbered
from edgefl.experiment.data.missing_values import settled
from edgefl.experiment.data.table_cells import TableCells

LABELS, GROUPS = ("label", "y"), ("group", "speaker")
USED = ("label", "group", "time", "drop", "missing")
IMAGES = 4  # number of axes of a column of images
HEADLESS = "the first line has only numbers; expected a heading, which names the columns, or the label's name (--label)"
MOST_BYTES = 1 << 28  # most bytes of text in a gzipped file, so that a small file cannot fill the memory


def read_table(path: Path, reading: Reading | None = None) -> DataSet:
    """Read the data set of a file, named after the file. A name that ends in .gz says that the file is compressed with
    gzip.

    Raises  DataError naming the file, the line, the column and the cell, and what was expected, or OSError.
    """
    return data_set_of(read_cells(path), reading, plain(path).stem)


def read_cells(path: Path, reading: Reading | None = None) -> TableCells:
    """Read the columns of a file. Raises DataError or OSError as `read_table` does."""
    return read_csv(path, MOST_BYTES)


def data_set_of(cells: TableCells, reading: Reading | None, name: str, used: Sequence[str] = USED) -> DataSet:
    """Make a data set of that name from a table.

    used    fields of Reading that such files have a use for
    Raises  DataError as `read_table` does.
    """
    reading = reading or Reading()
    reading.check(str(cells.path), *used)
    table = _Table(cells)
    label, group, time, inputs = columns_of(table, reading)
    notes = cells.notes
    if reading.missing == DROP:
        table, said = _without_missing(table, inputs, [each for each in (label, group, time) if each])
        notes += said
    found = _pictures(table, inputs) or features(table.found, inputs, reading.missing)
    x, absent, _, said = settled("the inputs", found.x, reading.missing)
    y, names = _targets(table, label)
    classes = y.shape[1] if y.ndim == 2 else len(names) or int(y.max()) + 1
    people, people_names = (None, ()) if group is None else _groups(table, group)
    times = None if time is None else table.times(time)
    named: dict[str, Any] = {
        "class_names": names or None,
        "group_names": people_names or None,
        "columns": found.columns or None,
    }
    named |= {"notes": (*notes, *found.notes, *said), "absent": absent}
    named["are_classes_stated"] = label in cells.classes
    scale = 1 / 255 if x.dtype == np.uint8 else 1.0
    return _parted(DataSet(name, x, y, classes, scale, 0.0, people, times=times, **named), table.found.tests)


def _parted(data: DataSet, tests: Array | None) -> DataSet:
    """Return the data with the examples for which bool [N] `tests` is true as test part."""
    if tests is None or not tests.any():
        return data
    groups, times, absent = (
        (None, None) if each is None else (each[~tests], each[tests]) for each in (data.groups, data.times, data.absent)
    )
    return replace(
        data, x=data.x[~tests], y=data.y[~tests], groups=groups[0], times=times[0], absent=absent[0],
        x_test=data.x[tests], y_test=data.y[tests], groups_test=groups[1], absent_test=absent[1],
    )  # fmt: skip


def _pictures(table: _Table, inputs: Sequence[str]) -> Features | None:
    """Return the inputs if they are one column of images. Return None if there is no such column."""
    columns = table.found.columns
    pictures = [name for name in inputs if getattr(columns[name], "ndim", 1) == IMAGES]
    if not pictures:
        return None
    others = [name for name in inputs if name != pictures[0]]
    if others:
        raise DataError(
            f"{table.path}: column {pictures[0]} has images; expected no other inputs: --drop {','.join(others)}"
        )
    return Features(np.asarray(columns[pictures[0]]), (), ())


def columns_of(table: _Table, reading: Reading) -> tuple[str, str | None, str | None, list[str]]:
    """Return the names of the label, the group, the time and the inputs. Raises DataError without label or inputs."""
    label = table.column(reading.label, LABELS)
    if label is None:
        has_heading = not all(map(is_number, table.names))
        lacks = f"no column {' or '.join(LABELS)} among {table.listed}; expected the label's name (--label)"
        raise DataError(f"{table.path}: {lacks if has_heading else HEADLESS}")
    group, time = table.column(reading.group, GROUPS), table.column(reading.time, ())
    dropped = [table.column(name, ()) for name in reading.drop]
    inputs = [name for name in table.names if name not in {label, group, time, *dropped}]
    if not inputs:
        raise DataError(f"{table.path}: no input columns besides the label {label}; expected at least one")
    return label, group, time, inputs


def _without_missing(table: _Table, inputs: Sequence[str], others: Sequence[str]) -> tuple[_Table, tuple[str, ...]]:
    """Return the table without the rows that lack some value, and a note with the number of rows left out."""
    cells = table.found
    lacks = np.any([cells.lacks(name, name in inputs) for name in (*inputs, *others)], axis=0)
    if lacks.all():
        raise DataError(
            f"{table.path}: every {cells.place} lacks at least one value; expected --missing mean, or fewer columns"
        )
    if not lacks.any():
        return table, ()
    return _Table(cells.only(~lacks)), (f"{int(lacks.sum())} of {len(lacks)} samples lack a value and are left out",)


def _targets(table: _Table, label: str) -> tuple[Array, tuple[str, ...]]:
    """Return labels as int32 [N] with the names of the classes, if they have names, or values as float32 [N, 1]."""
    cells = table.cells(label)
    try:
        values = np.array(cells, np.float64)
    except ValueError:
        return numbered(cells)
    if names := table.found.classes.get(label):
        if not (known := np.isin(values, np.arange(len(names)))).all():
            table.refuse(label, int(np.argmin(known)), f"0 to {len(names) - 1}, the numbers of the named classes")
        return values.astype(np.int32), names
    if not np.isfinite(values).all():
        table.refuse(label, int(np.argmin(np.isfinite(values))), "a finite number, or a name")
    if not all(map(_is_integer, cells)) or are_numbers(values):
        return values.astype(np.float32)[:, np.newaxis], ()
    if values.max() >= (most := largest_label(len(values))):
        table.refuse(label, int(np.argmax(values)), f"labels below {most}, or names, or numbers with a decimal point")
    return values.astype(np.int32), ()


def _is_integer(cell: str) -> bool:
    try:
        int(cell)
    except ValueError:
        return False
    return True


def _groups(table: _Table, group: str) -> Groups:
    """Return the group ids and their names. Whole numbers stay, and negative ids mean no group. Texts are numbered."""
    cells = table.cells(group)
    try:
        ids = np.array([int(cell) for cell in cells], np.int64)
    except ValueError:
        return numbered(cells)
    if len(ids) and not -(2**31) <= ids.min() <= ids.max() < 2**31:
        return numbered(cells)
    return ids.astype(np.int32), ()


class _Table:
    """The cells of a file, as texts, found by the purpose of their columns."""

    def __init__(self, found: TableCells) -> None:
        self.found, self.path = found, found.path
        self.names = list(found.columns)
        self.listed = ", ".join(self.names)

    def column(self, name: str, defaults: Sequence[str]) -> str | None:
        """Return the name of the column that was asked for, or else the first of `defaults` that the table has."""
        if name and name not in self.names:
            raise DataError(f"{self.path}: no column {name!r}; expected one of {self.listed}")
        return name or next((each for each in defaults if each in self.names), None)

    def cells(self, name: str) -> list[str]:
        """Return the texts of a column. Raises DataError if a cell is empty."""
        found = self.found.texts(name)
        if "" in found:
            self.refuse(name, found.index(""), "no empty cell, or --missing drop (missing= in Python)")
        return found

    def times(self, name: str) -> Array:
        """Return the cells of a column as float64. Dates become seconds since 1970."""
        cells = self.cells(name)
        parse: Callable[[str], float] = float if is_number(cells[0]) else _seconds
        times = np.empty(len(cells))
        for at, cell in enumerate(cells):
            try:
                times[at] = parse(cell)
            except ValueError:
                times[at] = np.nan
        if not np.isfinite(times).all():
            self.refuse(name, int(np.argmin(np.isfinite(times))), "numbers, or ISO dates as 2026-11-23T08:30")
        return times

    def refuse(self, name: str, at: int, expected: str) -> Any:
        """Raise DataError naming the cell."""
        return self.found.refuse(name, at, expected)


def _seconds(cell: str) -> float:
    return datetime.fromisoformat(cell.replace("Z", "+00:00")).timestamp()

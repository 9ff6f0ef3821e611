"""Labelled examples in a table: a text file with a heading, and a row for each example (CSV), plain or gzipped.

Cells are separated by commas, semicolons or tabs, whichever the heading has most of. Every column that is neither the
label, the group, the time nor dropped is an input, a number. A label is a whole number from 0, or a text, which is a
class by its name; or a number with a fraction, a value to be learnt. Times are numbers or ISO dates.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import read_at_most
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.dataset import Array, DataSet, Groups
from edgefl.experiment.data.label_names import numbered

SEPARATORS = ",;\t"
LABELS, GROUPS = ("label", "y"), ("group", "speaker")
USED = ("label", "group", "time", "drop")
GZIPPED = ".gz"
MOST_BYTES = 1 << 28  # of the text in a gzipped file: a small file must not fill the memory


def read_table(path: Path, reading: Reading | None = None) -> DataSet:
    """The data set of that file, named after it. A name that ends in .gz says that the file is compressed with gzip.

    Raises  DataError naming the file, the line, the column and the cell, and what was expected; OSError.
    """
    reading = reading or Reading()
    reading.check(str(path), *USED)
    table = _Table(path)
    label = table.column(reading.label, LABELS)
    if label is None:
        raise DataError(f"{path}: no column {' or '.join(LABELS)} among {table.listed}; expected the label's name")
    group, time = table.column(reading.group, GROUPS), table.column(reading.time, ())
    dropped = [table.column(name, ()) for name in reading.drop]
    inputs = [name for name in table.names if name not in {label, group, time, *dropped}]
    if not inputs:
        raise DataError(f"{path}: no column but {label}, the label, and what is no input; expected inputs")
    x = np.ascontiguousarray(np.stack([table.numbers(name) for name in inputs], axis=1), np.float32)
    y, names = _targets(table, label)
    classes = y.shape[1] if y.ndim == 2 else len(names) or int(y.max()) + 1
    people, people_names = (None, ()) if group is None else _groups(table, group)
    times = None if time is None else table.times(time)
    named: dict[str, Any] = {
        "class_names": names or None,
        "group_names": people_names or None,
        "columns": tuple(inputs),
    }
    return DataSet(_plain(path).stem, x, y, classes, 1.0, 0.0, people, times=times, **named)


def _plain(path: Path) -> Path:
    """The path without a last ".gz"."""
    return path.with_suffix("") if path.suffix.lower() == GZIPPED else path


def _opened(path: Path) -> TextIO:
    """The text of the file, at its start. Raises OSError; DataError for a gzipped file that is damaged or too large."""
    if path.suffix.lower() != GZIPPED:
        return open(path, encoding="utf-8-sig", newline="")
    with gzip.open(path) as stream:
        text = read_at_most(cast(BinaryIO, stream), MOST_BYTES, f"{path}, decompressed")
    return io.TextIOWrapper(io.BytesIO(text), encoding="utf-8-sig", newline="")


def _targets(table: _Table, label: str) -> tuple[Array, tuple[str, ...]]:
    """Labels as int32 [N] and the names of classes that have some; or values as float32 [N, 1]."""
    cells = table.cells(label)
    try:
        values = np.array(cells, np.float64)
    except ValueError:
        return numbered(cells)
    if not np.isfinite(values).all():
        table.refuse(label, int(np.argmin(np.isfinite(values))), "a finite number, or a name")
    if (values != np.floor(values)).any():
        return values.astype(np.float32)[:, np.newaxis], ()
    if (values < 0).any() or (values >= 2**31 - 1).any():
        table.refuse(label, int(np.argmax((values < 0) | (values >= 2**31 - 1))), "labels from 0, or names")
    if values.max() >= max(len(values), 1000):
        table.refuse(label, int(np.argmax(values)), f"labels below {max(len(values), 1000)}, or names")
    return values.astype(np.int32), ()


def _groups(table: _Table, group: str) -> Groups:
    """Whole numbers are ids as they are, so that negative ones are nobody; texts by their names."""
    cells = table.cells(group)
    try:
        ids = np.array([int(cell) for cell in cells], np.int64)
    except ValueError:
        return numbered(cells)
    if len(ids) and not -(2**31) <= ids.min() <= ids.max() < 2**31:
        return numbered(cells)
    return ids.astype(np.int32), ()


class _Table:
    """The cells of a file, and where they stand in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with _opened(path) as stream:
                heading = stream.readline()
                stream.seek(0)
                reader = csv.reader(stream, delimiter=max(SEPARATORS, key=heading.count), strict=True)
                rows = [(reader.line_num, row) for row in reader if row]
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}: {error}; expected a table as UTF-8 text") from None
        if len(rows) < 2:
            raise DataError(f"{path}: {len(rows)} lines; expected a heading, and a row for each example")
        self.names = [name.strip() for name in rows[0][1]]
        self.listed = ", ".join(self.names)
        self._check_names()
        for line, row in rows:
            if len(row) != len(self.names):
                raise DataError(f"{path}: line {line} has {len(row)} cells; expected {len(self.names)}: {self.listed}")
        self._lines = [line for line, _ in rows[1:]]
        self._columns = dict(zip(self.names, zip(*(row for _, row in rows[1:]), strict=True), strict=True))

    def _check_names(self) -> None:
        for at, name in enumerate(self.names):
            if not name or name in self.names[:at]:
                found = "twice" if name else "without a name"
                raise DataError(f"{self.path}: column {at + 1} {name!r} {found}; expected a heading of different names")

    def column(self, name: str, defaults: Sequence[str]) -> str | None:
        """The name of the column that was asked for, or else of the first of `defaults` that there is."""
        if name and name not in self.names:
            raise DataError(f"{self.path}: no column {name!r}; expected one of {self.listed}")
        return name or next((each for each in defaults if each in self.names), None)

    def cells(self, name: str) -> list[str]:
        """Its texts, none of them empty."""
        found = [cell.strip() for cell in self._columns[name]]
        if "" in found:
            self.refuse(name, found.index(""), "no empty cell")
        return found

    def numbers(self, name: str) -> Array:
        """Its cells as finite float32."""
        cells = self.cells(name)
        try:
            with np.errstate(over="ignore"):
                values = np.array(cells, np.float32)
        except ValueError:
            values = np.array([_number(cell) for cell in cells], np.float32)
        if not np.isfinite(values).all():
            expected = "a finite number; or the column among those to drop, or as label, group or time"
            self.refuse(name, int(np.argmin(np.isfinite(values))), expected)
        return values

    def times(self, name: str) -> Array:
        """Its cells as float64, dates as seconds."""
        cells = self.cells(name)
        parse: Callable[[str], float] = float if _is_number(cells[0]) else _seconds
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
        """Raises DataError naming the cell."""
        cell = self._columns[name][at]
        raise DataError(f"{self.path}: line {self._lines[at]} has {cell!r} in column {name}; expected {expected}")


def _number(cell: str) -> float:
    return float(cell) if _is_number(cell) else np.nan


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _seconds(cell: str) -> float:
    return datetime.fromisoformat(cell.replace("Z", "+00:00")).timestamp()

"""A table as columns of cells, whatever file it was in: the form that every reader of tables gives. It reads no file.

A column is a list of texts, in which an empty text is missing, or an array of numbers [rows] or [rows, entries], in
which NaN is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.label_names import shortened

Column = Sequence[str] | Array
NO_VALUE = frozenset(("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "null", "NULL", "None", "?"))


@dataclass(frozen=True, eq=False)
class TableCells:
    """Columns of a table by name.

    path     the file, for errors
    columns  columns by name, in the file's order, all of one length
    lines    the line or row of the file at which each row begins
    place    what the numbers of `lines` count: "line" or "row"
    notes    sentences on what the reader did
    classes  names of the classes 0, 1, ... by the name of a column of whole numbers
    tests    bool [rows], true for rows of a published test part. None: there is no such part
    """

    path: Path
    columns: Mapping[str, Column]
    lines: Sequence[int]
    place: str = "line"
    notes: tuple[str, ...] = ()
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tests: Array | None = None

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column as a text file has them. Raises DataError for a column of several entries."""
        column = self.columns[name]
        if not isinstance(column, np.ndarray):
            return list(column)
        if column.ndim != 1:
            raise DataError(
                f"{self.path}: column {name} has {column.shape[1:]} entries a row; expected one entry a row"
            )
        return ["" if value != value else str(value) for value in column.tolist()]

    def lacks(self, name: str, is_input: bool) -> Array:
        """Return bool [rows], true where the column has no value. An input also lacks a value where it has one of the
        usual words for it.
        """
        column = self.columns[name]
        if isinstance(column, np.ndarray):
            nothing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(column.shape, bool)
            return np.asarray(nothing.reshape(len(column), -1).any(1))
        known = NO_VALUE if is_input else {""}
        return np.array([cell in known for cell in column], bool)

    def only(self, rows: Array) -> TableCells:
        """Return the table with the rows for which bool [rows] is True."""
        kept = np.flatnonzero(rows)
        columns = {
            name: column[kept] if isinstance(column, np.ndarray) else [column[at] for at in kept.tolist()]
            for name, column in self.columns.items()
        }
        tests = None if self.tests is None else self.tests[kept]
        return replace(self, columns=columns, lines=[self.lines[at] for at in kept.tolist()], tests=tests)

    def without(self, names: Iterable[str], note: str) -> TableCells:
        """Return the table without these columns, and with a note that says why."""
        kept = {name: column for name, column in self.columns.items() if name not in set(names)}
        return replace(self, columns=kept, notes=(*self.notes, note))

    def refuse(self, name: str, at: int, expected: str) -> Any:
        """Raise DataError naming the cell."""
        column = self.columns[name]
        cell = "" if isinstance(column, np.ndarray) and self.lacks(name, True)[at] else column[at]
        shown = repr(shortened(cell)) if isinstance(cell, str) else str(cell)
        raise DataError(f"{self.path}: {self.place} {self.lines[at]} has {shown} in column {name}; expected {expected}")


def rows_of_numbers(path: Path, name: str, values: Sequence[Any]) -> Array:
    """Return lists of one length as float64 [rows, entries]. Raises DataError if their lengths or kinds differ."""
    try:
        found = np.array([np.ravel(np.asarray(value, np.float64)) for value in values])
    except (ValueError, TypeError):
        found = np.empty(0)
    if found.ndim != 2:
        raise DataError(
            f"{path}: column {name} has lists of several lengths or kinds; expected equally many numbers in each row"
        )
    return found

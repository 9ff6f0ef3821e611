"""The input columns of a table as features: numbers, truth values as 0 and 1, and one column for each text.

csv_table.py chooses these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.column_choice import MEAN
from edgefl.experiment.data.dataset import Array
from edgefl.experiment.data.table_cells import NO_VALUE, TableCells

MOST_TEXTS = 64  # most different texts of a category column: a column with more has names, dates or sentences
LISTED = 4  # number of names in a note
TRUTH = {"true": 1.0, "false": 0.0}
ELSEWHERE = "the column in --drop, or as --label, --group or --time (drop= and so on in Python)"
TOLD = "--missing mean or --missing drop (missing= in Python)"


class Features(NamedTuple):
    """The features, float32 [N, F] with NaN where a mean is to stand, their names, and notes on what was done."""

    x: Array
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def features(table: TableCells, inputs: Sequence[str], how: str, known: Sequence[str] | None = None) -> Features:
    """Return the inputs as features, in order.

    how     what is done about missing values (Reading.missing). Any value but MEAN refuses missing values
    known   the names of the features of the training data, which list the texts of a column. None: the table lists them
    Raises  DataError naming the first cell that cannot be an input, and the other columns with such cells
    """
    parts: list[Features] = []
    refused: list[DataError] = []
    for name in inputs:
        try:
            parts.append(_checked_feature(table, name, how, known))
        except DataError as error:
            refused.append(error)
    if refused:
        first, *others = map(str, refused)
        listed = [each.partition("; expected ")[0].removeprefix(f"{table.path}: ") for each in others[:LISTED]]
        rest = [f"{len(others) - LISTED} more columns"] if len(others) > LISTED else []
        raise DataError(f"{first}. Refused as well: {', '.join(listed + rest)}" if others else first)
    x = np.concatenate([part.x for part in parts], axis=1)
    columns = tuple(column for part in parts for column in part.columns)
    notes = tuple(note for part in parts for note in part.notes)
    return Features(np.ascontiguousarray(x, np.float32), columns, notes)


def _checked_feature(table: TableCells, name: str, how: str, known: Sequence[str] | None) -> Features:
    """The features of one column, unless values are missing and no means are to stand for them."""
    lacks = table.lacks(name, True)
    if how != MEAN and lacks.any():
        at, cell = int(np.argmax(lacks)), table.columns[name]
        is_empty = isinstance(cell, np.ndarray) or not cell[at]
        table.refuse(name, at, f"{'no empty cell' if is_empty else 'a finite number'}, or {TOLD}")
    return _feature(table, name, lacks, known)


def _feature(table: TableCells, name: str, lacks: Array, known: Sequence[str] | None) -> Features:
    """Return the features of one column."""
    column = table.columns[name]
    if isinstance(column, np.ndarray):
        values = column.reshape(len(column), -1)
        entries = tuple(f"{name}[{at}]" for at in range(values.shape[1])) if column.ndim > 1 else (name,)
        return Features(_finite(table, name, values, lacks), entries, ())
    if not lacks.any() and (plain := _all_numbers(column)) is not None:
        return Features(_finite(table, name, plain[:, np.newaxis], lacks), (name,), ())
    present = [cell for cell in column if cell not in NO_VALUE]
    if present and all(cell.lower() in TRUTH for cell in present):
        values = np.array([TRUTH.get(cell.lower(), np.nan) for cell in column])
        return Features(values[:, np.newaxis], (name,), (f"in column {name}, True is 1 and False is 0",))
    if known is not None and name not in known:
        texts = [each.removeprefix(f"{name}=") for each in known if each.startswith(f"{name}=")]
        return _indicators(table, name, texts, lacks)
    if _are_categories(present):
        return _indicators(table, name, sorted(set(present)), lacks)
    numbers = np.array([np.nan if cell in NO_VALUE else _number(cell) for cell in column])
    return Features(_finite(table, name, numbers[:, np.newaxis], lacks), (name,), ())


def _all_numbers(column: Sequence[str]) -> Array | None:
    """Return the cells as float32, or None if some cell is not a number."""
    try:
        with np.errstate(over="ignore"):
            return np.array(column, np.float32)
    except ValueError:
        return None


def _finite(table: TableCells, name: str, values: Array, lacks: Array) -> Array:
    """Return the values as float32. Raises DataError for the first value that is neither finite nor missing."""
    with np.errstate(over="ignore"):
        found = np.asarray(values, np.float32)
    wrong = ~np.isfinite(found).all(1) & ~lacks
    if wrong.any():
        column = table.columns[name]
        texts = "" if isinstance(column, np.ndarray) else _categories_expected(column)
        table.refuse(name, int(np.argmax(wrong)), f"a finite number{texts}, or {ELSEWHERE}")
    return found


def _categories_expected(column: Sequence[str]) -> str:
    """Return the words that say how many different texts are allowed, for a column that has no number."""
    present = [cell for cell in column if cell not in NO_VALUE]
    if any(np.isfinite(_number(cell)) for cell in present):
        return ""
    most = min(MOST_TEXTS, len(present) // 2)
    return f", or at most {most} different texts instead of {len(set(present))}"


def _are_categories(present: Sequence[str]) -> bool:
    """Return whether these texts are few and often repeated, and no text is a number or a date."""
    texts = set(present)
    is_few = 0 < len(texts) <= min(MOST_TEXTS, len(present) // 2)
    return is_few and not any(is_number(text) or _is_date(text) for text in texts)


def _indicators(table: TableCells, name: str, texts: Sequence[str], lacks: Array) -> Features:
    """Return a column of 0 and 1 for each text. Raises DataError for a cell that is not one of the texts."""
    places = {text: at for at, text in enumerate(texts)}
    x = np.zeros((len(lacks), len(texts)), np.float32)
    for at, cell in enumerate(table.columns[name]):
        if lacks[at]:
            x[at] = np.nan
        elif cell in places:
            x[at, places[cell]] = 1
        else:
            table.refuse(name, at, f"one of {', '.join(texts)}, as in the training data")
    names = tuple(f"{name}={text}" for text in texts)
    shown = ", ".join(names[:LISTED]) + (", ..." if len(names) > LISTED else "")
    return Features(x, names, (f"column {name} has texts: {len(names)} columns of 0 and 1 ({shown})",))


def _number(cell: str) -> float:
    return float(cell) if is_number(cell) else np.nan


def is_number(cell: str) -> bool:
    """Return whether a text is a number. Infinity and NaN are numbers here."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_date(cell: str) -> bool:
    try:
        datetime.fromisoformat(cell.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True

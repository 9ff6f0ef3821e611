"""A pandas DataFrame as arrays: the target column, the columns that say from whom and when a row comes, and the inputs.

pandas is not imported, because the object has the methods. program_data.py has the other forms of a program's data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.dataset import Array

COLUMNS = ("label", "group", "time", "drop")  # settings that name columns
LABELS, GROUPS = ("label", "y"), ("group", "speaker")  # names of columns that need no setting


def of_frame(frame: Any, columns: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays of a DataFrame by the names of data/npz.py. A row is a sample.

    columns  the settings among COLUMNS that were given
    Raises   DataError naming the column and the row that do not fit.
    """
    known = [str(name) for name in frame.columns]
    if len(set(known)) != len(known):
        raise DataError(f"data: the DataFrame has columns {', '.join(known)}; expected each name once")
    label = _column(known, columns.get("label", ""), LABELS)
    if label is None:
        raise DataError(f"data: the DataFrame has columns {', '.join(known)}; expected label=, the column to be learnt")
    group, time = (_column(known, columns.get(key, ""), names) for key, names in (("group", GROUPS), ("time", ())))
    drop = columns.get("drop", ())
    dropped = {_column(known, name, ()) for name in ([drop] if isinstance(drop, str) else drop)}
    inputs = [name for name in known if name not in {label, group, time, *dropped}]
    if not inputs:
        raise DataError(f"data: the DataFrame has no input columns besides the label {label}; expected at least one")
    of_name = dict(zip(known, (frame.iloc[:, at] for at in range(len(known))), strict=True))
    x = np.stack([_numbers(of_name[name], name) for name in inputs], axis=1)
    others = {"y": label, "group": group, "time": time}
    return {"x": x, **{key: _cells(of_name[name], name) for key, name in others.items() if name is not None}}


def _column(known: Sequence[str], wanted: str, usual: Sequence[str]) -> str | None:
    """Return the column that a setting names, or else a column of a usual name, or None if there is no such column."""
    if wanted and wanted not in known:
        raise DataError(f"data: no column {wanted!r} in the DataFrame; expected one of {', '.join(known)}")
    return wanted or next((name for name in usual if name in known), None)


def _numbers(column: Any, name: str) -> Array:
    """Return an input as float32. Raises DataError for text, or for a value that is missing."""
    cells = _cells(column, name)
    if cells.dtype.kind not in "biuf":
        raise DataError(
            f"data: column {name!r} of the DataFrame is {column.dtype}; expected numbers: pandas.get_dummies makes "
            f"columns of its values, drop={name!r} leaves it out"
        )
    with np.errstate(over="ignore"):
        values = cells.astype(np.float32)
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise DataError(f"data: column {name!r} of the DataFrame has {cells[at]} in row {at}; expected finite numbers")
    return values


def _cells(column: Any, name: str) -> Array:
    """Return a column's values, converted from pandas' own types to numpy's. Raises DataError if a value is missing."""
    missing = np.asarray(column.isna())
    if missing.any():
        at = int(missing.argmax())
        raise DataError(
            f"data: column {name!r} of the DataFrame has no value in row {at}; expected one: fillna or dropna first"
        )
    kind = str(column.dtype)
    if kind == "category":
        column = column.astype(column.cat.categories.dtype)
    elif kind[:1].isupper():  # pandas' own types of numbers, which may be missing: Int64, Float64
        column = column.astype(kind.lower())
    elif kind == "boolean":
        column = column.astype("bool")
    cells = np.asarray(column)
    return cells.astype(str) if cells.dtype == object and all(isinstance(each, str) for each in cells) else cells

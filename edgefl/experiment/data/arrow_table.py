"""Tables of Apache Arrow: Parquet, Feather, and the stream or file format that Hugging Face's `datasets` writes.

pyarrow is the library for these formats, and only this file needs it. csv_table.py decides what each column is for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgefl.errors import DataError
from edgefl.experiment.data.checked_reader import damage_named
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.image_pixels import ImageBytes
from edgefl.experiment.data.images import read_pixels
from edgefl.experiment.data.optional_package import check_installed
from edgefl.experiment.data.table_cells import Column, TableCells, rows_of_numbers

HUGGING_FACE = b"huggingface"  # the key of the metadata of the library `datasets`


def read_cells(path: Path, reading: Reading | None = None) -> TableCells:
    """Read the columns of a .parquet, .feather or .arrow file. A column of encoded images becomes pixels.

    Raises  DataError naming the file, the row, the column and what was expected, or saying that pyarrow is missing.
    """
    check_installed(path, "pyarrow")
    return cells_of(path, [opened(path)], reading)


def cells_of(path: Path, tables: Sequence[Any], reading: Reading | None) -> TableCells:
    """Return the columns of Arrow tables, one table after another. Errors call them `path`, and count all rows."""
    import pyarrow

    with damage_named(str(path)):
        table = pyarrow.concat_tables(tables)
    if not table.num_rows:
        raise DataError(f"{path}: 0 rows; expected a row for each example")
    size = (reading or Reading()).size
    notes: tuple[str, ...] = ()
    columns: dict[str, Column] = {}
    for name in table.column_names:
        if name in (reading or Reading()).drop:
            columns[name] = [""] * table.num_rows
            continue
        with damage_named(f"{path}: column {name}"):
            columns[name], said = _column(path, name, table.column(name), size)
        notes += said
    return TableCells(path, columns, range(1, table.num_rows + 1), "row", notes, _class_names(path, table))


def _class_names(path: Path, table: Any) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of columns, which Hugging Face's `datasets` writes into the metadata."""
    with damage_named(f"{path}: the metadata of Hugging Face's datasets"):
        written = json.loads((table.schema.metadata or {}).get(HUGGING_FACE, b"{}"))
        kinds = written.get("info", {}).get("features", {}).items()
        return {name: tuple(map(str, kind["names"])) for name, kind in kinds if kind.get("_type") == "ClassLabel"}


def opened(path: Path) -> Any:
    """Return the table of a file, as pyarrow has it. Raises DataError for a file that is damaged."""
    with damage_named(str(path)):
        return _table(path)


def _table(path: Path) -> Any:
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        return parquet.ParquetFile(path).read()
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        opened = pyarrow.ipc.open_file(file) if is_file else pyarrow.ipc.open_stream(file)
        return opened.read_all()


def _column(path: Path, name: str, column: Any, size: int) -> tuple[Column, tuple[str, ...]]:
    """Return one column, and what was done to it. Raises DataError unless it has numbers, texts or images."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_floating(kind) or types.is_decimal(kind) or types.is_integer(kind):
        if not column.null_count and types.is_integer(kind):
            return column.combine_chunks().to_numpy(zero_copy_only=False), ()
        values = [np.nan if value is None else float(value) for value in column.to_pylist()]
        return np.array(values, np.float64), ()
    values = column.to_pylist()
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return ["" if value is None else str(value).strip() for value in values], ()
    if types.is_temporal(kind) and hasattr(next((v for v in values if v is not None), None), "isoformat"):
        return ["" if value is None else value.isoformat() for value in values], ()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return rows_of_numbers(path, name, values), ()
    images = [value.get("bytes") if isinstance(value, dict) else value for value in values]
    found = [ImageBytes(f"{path}: row {at}", each) for at, each in enumerate(images, 1) if isinstance(each, bytes)]
    if len(found) == len(images):
        return read_pixels(found, size)
    raise DataError(f"{path}: column {name} is {column.type}; expected numbers, texts, dates, images, or --drop {name}")

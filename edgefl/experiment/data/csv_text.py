"""The text of a CSV file as columns of cells, as office programs and pandas write it. csv_table.py uses the columns.

The encoding is UTF-8, or the encoding that a byte order mark names. Cells are separated by commas, semicolons or tabs,
by whichever is most frequent in the heading. If the separator is not a comma, numbers may have decimal commas. A first
column without a name whose cells are different whole numbers is the index that pandas writes, and is left out.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from edgefl.errors import DataError
from edgefl.experiment.data import checked_reader
from edgefl.experiment.data.table_cells import NO_VALUE, TableCells

SEPARATORS = ",;\t"
GZIPPED = ".gz"
LONGEST_LINE = 1 << 24  # characters, enough for a million columns
INDEX = ("", "Unnamed: 0")  # heading of an index that pandas writes, and the name of its column after pandas reads it
DECIMAL = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")


def plain(path: Path) -> Path:
    """Return the path without a last ".gz"."""
    return path.with_suffix("") if path.suffix.lower() == GZIPPED else path


def read_csv(path: Path, most_bytes: int) -> TableCells:
    """Read the cells of a file. A name that ends in .gz says that the file is compressed with gzip.

    most_bytes  largest size of the text in a gzipped file, in bytes
    Raises      DataError naming the file, the line and what was expected, or OSError.
    """
    try:
        with _opened(path, most_bytes) as stream:
            heading = next(_lines(stream, path), "")
            if "\0" in heading:
                raise UnicodeError("there are zero bytes between characters, as in UTF-16 without a byte order mark")
            stream.seek(0)
            separator = max(SEPARATORS, key=heading.count)
            reader = csv.reader(_lines(stream, path), delimiter=separator, strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
    except (UnicodeError, csv.Error) as error:
        cure = f"iconv -f LATIN1 -t UTF-8 {path.name} > new.csv, or its encoding in place of LATIN1"
        raise DataError(f"{path}: {error}; expected a table as UTF-8 text: {cure}") from None
    if len(rows) < 2:
        raise DataError(f"{path}: {len(rows)} lines; expected a heading, and a row for each example")
    names = [name.strip() for name in rows[0][1]]
    for line, row in rows:
        if len(row) != len(names):
            raise DataError(f"{path}: line {line} has {len(row)} cells; expected {len(names)}: {', '.join(names)}")
    columns = [[cell.strip() for cell in column] for column in zip(*(row for _, row in rows[1:]), strict=True)]
    is_indexed = names[0] in INDEX and len(names) > 1 and _is_index(columns[0])
    _check_names(path, names[is_indexed:], 1 + is_indexed)
    notes: tuple[str, ...] = (
        ("the first column, which has no name, is an index and not an input",) if is_indexed else ()
    )
    commas = [] if separator == "," else [at for at, column in enumerate(columns) if _has_decimal_commas(column)]
    for at in commas:
        columns[at] = [cell.replace(",", ".") for cell in columns[at]]
    if commas:
        notes += (f"the commas in the numbers of {', '.join(names[at] for at in commas)} are decimal commas",)
    named = dict(zip(names[is_indexed:], columns[is_indexed:], strict=True))
    return TableCells(path, named, [line for line, _ in rows[1:]], notes=notes)


def _lines(stream: TextIO, path: Path) -> Iterator[str]:
    """Yield the lines of a file. Raises DataError for a line longer than LONGEST_LINE, and reads no more of it."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise DataError(f"{path}: line {number} has more than {LONGEST_LINE} characters; expected a table as text")
        yield line


def _opened(path: Path, most_bytes: int) -> TextIO:
    """Open the text of the file. Raises OSError, or DataError for a gzipped file that is damaged or too large."""
    if path.suffix.lower() != GZIPPED:
        with open(path, "rb") as raw:
            encoding = _encoding(raw.read(2))
        return open(path, encoding=encoding, newline="")
    with gzip.open(path) as stream:
        text = checked_reader.read_at_most(cast(BinaryIO, stream), most_bytes, f"{path}, decompressed")
    return io.TextIOWrapper(io.BytesIO(text), encoding=_encoding(bytes(text[:2])), newline="")


def _encoding(first: bytes) -> str:
    """Return the encoding that a byte order mark names, or UTF-8 without a mark."""
    return "utf-16" if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _check_names(path: Path, names: Sequence[str], first: int) -> None:
    for at, name in enumerate(names):
        if not name or name in names[:at]:
            found = "twice" if name else "without a name"
            raise DataError(f"{path}: column {at + first} {name!r} {found}; expected a heading of different names")


def _is_index(cells: Sequence[str]) -> bool:
    return all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)


def _has_decimal_commas(cells: Sequence[str]) -> bool:
    """Return whether every cell is a number or missing, and some number has a comma."""
    return any("," in cell for cell in cells) and all(DECIMAL.fullmatch(cell) or cell in NO_VALUE for cell in cells)

"""A page of results in one of its formats, or as a file whose suffix names the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from edgefl.study.flat_rows import Row, as_csv
from edgefl.study.result_table import ResultPage
from edgefl.study.table_formats import as_document, as_html, as_latex, as_markdown
from edgefl.study.tables import as_text
from edgefl.system.durable_files import check_writable, write_atomically

WIDTH = 100  # columns of plain text
FORMATS = ("text", "markdown", "latex", "csv", "html")
SUFFIXES = {".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv", ".html": "html"}
WRITERS: Mapping[str, Callable[[ResultPage], str]] = {"markdown": as_markdown, "latex": as_latex, "html": as_html}


class TableText(str):
    """Text of tables, which prints as it is. A notebook shows it as HTML tables."""

    __slots__ = ("_html",)
    _html: str

    def __new__(cls, text: str, html: str) -> TableText:
        found = super().__new__(cls, text)
        found._html = html
        return found

    def _repr_html_(self) -> str:
        return self._html


def check_format(format: str, width: object) -> None:
    """Raise ValueError for an unknown format, or for a width that is not a number of columns."""
    if isinstance(width, str):
        raise ValueError(f"width={width!r}; expected a number of columns; format={width!r} names a format")
    if format not in FORMATS:
        raise ValueError(f"format={format!r}; expected one of {', '.join(FORMATS)}")


def formatted(page: ResultPage, rows: list[Row], format: str, width: int = WIDTH) -> str:
    """Return the page in one of FORMATS. `rows` are the content of CSV. `width` is the width of text in columns."""
    if format == "csv":
        return as_csv(rows)
    return as_text(page, width) if format == "text" else WRITERS[format](page)


def check_table_file(path: Path) -> None:
    """Raise ValueError for a suffix that names no format, RequestError for a file that cannot be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"--table {path}; expected a file that ends in one of {', '.join(SUFFIXES)}")
    check_writable(path)


def write_table(path: Path, page: ResultPage, rows: list[Row], title: str) -> None:
    """Write the file. `title` is the title of an HTML document. Raises OSError if the disk refuses."""
    format = SUFFIXES[path.suffix.lower()]
    text = as_document(page, title) if format == "html" else formatted(page, rows, format)
    write_atomically(path, text.encode())

"""A table of a study as values: a title, headings, and cells of text. table_style.py gives a table its look in a
terminal, and table_formats.py in a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class ResultTable:
    """One table.

    headings  one heading for each column
    rows      rows with one cell for each column
    left      number of columns, from the left, that have names and are left-aligned. The others have numbers
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(
                    f"{self.title}: a row has {len(row)} cells; expected {len(self.headings)}, as headings"
                )


class ResultPage(NamedTuple):
    """The tables of a run in their order, and the sentences below them."""

    tables: tuple[ResultTable, ...]
    sentences: tuple[str, ...]


def new_result_table(title: str, headings: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> ResultTable:
    """Make a table of any iterables."""
    return ResultTable(title, tuple(headings), tuple(map(tuple, rows)), left)

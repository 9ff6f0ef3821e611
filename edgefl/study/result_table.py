"""A table of a study as values: a title, headings, and cells of text. Not what a table looks like: in a terminal that
is table_style.py's, in a file table_formats.py's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class ResultTable:
    """One table.

    headings  one for each column
    rows      of as many cells each
    left      so many columns from the left are names, at their left edges; the other columns are numbers, at the right
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
    """A table of any iterables."""
    return ResultTable(title, tuple(headings), tuple(map(tuple, rows)), left)

"""The outcomes of the cases of rest.py as a table: a line per side, stage and file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.console import Console
from rich.table import Table

from tests.faults.damage import KINDS
from tests.faults.rest import Row


def print_table(rows: Iterable[Row]) -> None:
    """Print the outcome of each kind of damage. For flipped bits, print how many had each outcome."""
    table = Table(title="identical: ends bit-identical to the undisturbed run; refused: by name, nothing changed")
    for heading in ("side", "stage", "file", *KINDS):
        table.add_column(heading)

    def of(row: Row) -> tuple[str, str, str]:
        return row.side, row.stage, row.file

    for heading, group in groupby(sorted(rows, key=of), of):
        found = list(group)
        cells = [_cell([row for row in found if row.damage.startswith(kind)]) for kind in KINDS]
        table.add_row(*heading, *cells)
    console = Console()
    console.width = max(console.width, 140)
    console.print(table)


def _cell(rows: list[Row]) -> str:
    outcomes = [row.outcome if row.is_good else "FAILED" for row in rows]
    if len(outcomes) < 2:
        return "".join(outcomes) or "-"
    return ", ".join(f"{outcomes.count(each)} {each}" for each in sorted(set(outcomes)))

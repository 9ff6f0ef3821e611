"""The style of all tables of a study in a terminal. tables.py and device_tables.py make the contents of the tables."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from edgefl.study.result_table import ResultTable


def new_table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", min_width=72, box=box.SIMPLE_HEAD, padding=(0, 0)
    )


def styled(table: ResultTable) -> Table:
    """Return the table as rich prints it. Brackets in a name are text, not markup."""
    found = new_table(escape(table.title))
    for i, heading in enumerate(table.headings):
        if i < table.left:
            found.add_column(escape(heading), overflow="fold")
        else:
            found.add_column(escape(heading), justify="right")
    for row in table.rows:
        found.add_row(*map(escape, row))
    return found

"""What all tables of a study look like. What they say is tables.py's and device_tables.py's."""

from __future__ import annotations

from rich import box
from rich.table import Table


def new_table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", min_width=72, box=box.SIMPLE_HEAD, padding=(0, 0)
    )

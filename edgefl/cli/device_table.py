"""The devices of a served run as a table for a terminal. The rows come from server/device_rows.py."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from edgefl.cli.memory_table import size
from edgefl.protocol.wire.printable import printable
from edgefl.server.device_rows import DeviceRow
from edgefl.study.energy_totals import words

NUMBERS = ("last seen", "tier", "median", "accepted", "late", "absent", "refused", "accuracy", "samples")


def device_table(rows: Sequence[DeviceRow]) -> Table:
    """Return a table with one line for each device. Columns that are empty for every device are left out."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    cells = [_cells(row) for row in rows]
    shown = [name for name in (cells[0] if cells else ()) if name in ("device", "does") or any(c[name] for c in cells)]
    for name in shown:
        is_number = name in NUMBERS
        table.add_column(name, justify="right" if is_number else "left", no_wrap=name in (*NUMBERS, "device"))
    for each in cells:
        table.add_row(*(Text(printable(each[name])) for name in shown))  # text of a device is not markup
    return table


def _cells(row: DeviceRow) -> dict[str, str]:
    return {
        "device": str(row.client),
        "does": row.doing + (" *" if row.waited_for else ""),
        "last seen": "" if row.last_seen_s is None else age(row.last_seen_s),
        "tier": "" if row.capacity is None else f"{row.capacity:g}",
        "median": "" if row.median_seconds is None else f"{row.median_seconds:.3g} s",
        **{name: str(getattr(row, name) or "") for name in ("accepted", "late", "absent", "refused")},
        "accuracy": "" if row.accuracy is None else f"{100 * row.accuracy:.1f} %",
        "samples": "" if row.examples is None else str(row.examples),
        "memory": "" if row.memory_bytes is None else size(row.memory_bytes),
        "energy": words(row.joules),
        "version": row.version,
        "why": row.why,
    }


def age(seconds: float) -> str:
    """Return a number of seconds in the unit that people would use: 12 s, 5 min, 3 h or 2 d."""
    for most, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} d"

"""The table of the tutorial in Markdown, made of the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.fine_tuning.record import Row

HEADINGS = (
    "trained", "own models", "worst tenth", "global model", "worst tenth", "payload, MB", "memory, MB", "resident, MB",
    "client round, s", "rate",
)  # fmt: skip
MB = 1e6


def markdown(rows: Iterable[Row]) -> str:
    """Return the table, a line for each row."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(tuple, map(_cells, rows))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Row) -> Iterator[str]:
    yield row["name"]
    yield from (percent(row[name]) for name in ("own", "own_worst", "global", "global_worst"))
    yield megabytes(row["payload_bytes"])
    small, large = (megabytes(each) for each in row["memory_bytes"])
    yield small if small == large else f"{small} to {large}"
    yield megabytes(row["resident_bytes"])
    yield "" if row["client_round_s"] is None else f"{row['client_round_s']:.2f}"
    yield f"{row['chosen']:g}"


def percent(share: float | None) -> str:
    """Return a share in percent, or nothing where the method has no such model."""
    return "" if share is None else f"{100 * share:.1f} %"


def megabytes(count: float) -> str:
    """Return bytes in megabytes with three digits, but all digits before the point."""
    value = count / MB
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"

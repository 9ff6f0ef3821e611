"""The record of the tutorial, record.jsonl: one line of JSON for each row of the table, with the machine and the commit
that made it. The table of docs/fine-tuning.md and its picture are made of the record alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("record.jsonl")
Row = Mapping[str, Any]


def read(file: Path = FILE) -> list[Row]:
    """Return the rows, or none without a file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def write(row: Row, order: Iterable[str], file: Path = FILE) -> None:
    """Put a row into the record in place of the former row of its name. The rows are in the order of these names."""
    known = {each["name"]: each for each in read(file)} | {row["name"]: row}
    file.write_text("".join(f"{json.dumps(known[name])}\n" for name in order if name in known), "utf-8")

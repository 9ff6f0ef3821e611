"""Pieces of a comparison: small records that are made once, kept as JSON, and may come from several machines.

A piece that has a file is read and not made again. So a repeated command goes on where it was killed, and a table is
whole as soon as the files of all its pieces lie in one folder. Runs of a table of a paper (runs.py) are not pieces:
their directories hold every round.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from edgefl.system.durable_files import write_atomically

Piece = dict[str, Any]


def piece(folder: Path, name: str, make: Callable[[], Piece]) -> Piece:
    """Return the content of `folder`/NAME.json.

    If it is missing, make it and write it with the machine that made it.
    """
    if (found := known(folder, name)) is None:
        print(name, file=sys.stderr, flush=True)
        found = {"piece": name, **make(), "machine": machine.facts()}
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{name}.json", (_lines(found) + "\n").encode())
    return found


def known(folder: Path, name: str) -> Piece | None:
    """Return the record of a piece, or None where it has not been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _lines(found: Piece) -> str:
    """Return JSON with a line per entry, so that a difference of two files shows what changed."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()) + "\n}"

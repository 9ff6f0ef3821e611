"""Pieces of a comparison: small records that are made once, kept as JSON, and may come from several machines.

A piece that has a file is read and not made again, so that the same command goes on where it was killed, and a table
is whole as soon as the files of all of its pieces lie in one folder. Not the runs of a table of a paper (runs.py),
whose directories hold every round.
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
    """What `folder`/NAME.json says; made, and written with the machine that made it, where there is no such file."""
    if (found := known(folder, name)) is None:
        print(name, file=sys.stderr, flush=True)
        found = {"piece": name, **make(), "machine": machine.facts()}
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{name}.json", (_lines(found) + "\n").encode())
    return found


def known(folder: Path, name: str) -> Piece | None:
    """The record of a piece; None where it has not been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _lines(found: Piece) -> str:
    """JSON with a line per entry, so that a difference of two files shows what changed."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()) + "\n}"

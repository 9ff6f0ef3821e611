"""Rows of cases as JSON lines: to standard output with `--json`, and to the file of `--out`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any


def put_row(row: Any, options: argparse.Namespace) -> None:
    """Write the row, an instance of a dataclass, where the options ask for it."""
    line = json.dumps(asdict(row))
    if options.json:
        print(line, flush=True)
    if options.out is not None:
        with open(options.out, "a") as out:
            out.write(line + "\n")

"""`edgefl doctor`: what this installation can do, as text or JSON. The findings are doctor.py's."""

from __future__ import annotations

import argparse
import json
from typing import Any

from edgefl.commands.base import Command
from edgefl.doctor import describe, examine


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _run(options: dict[str, Any]) -> int:
    found = examine()
    print(json.dumps(found, indent=1) if options["json"] else describe(found))
    return 0


COMMAND = Command("show backend, instruction set, threads, versions and data directories", _add_arguments, _run)

"""`edgefl doctor`: what this installation can do."""

from __future__ import annotations

import argparse
import json

from edgefl import doctor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Prints the findings."""
    found = doctor.examine()
    print(json.dumps(found, indent=1) if options.json else doctor.describe(found))
    return 0

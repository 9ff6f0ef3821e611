"""`python -m tests WHAT`: equipment of the tests that runs for longer than a test may.

`python -m tests faults` serves runs with faults, and compares each run with its simulation. `python -m tests vopr`
simulates a server and its devices under faults. `python -m tests mutants` puts mistakes into copies of the sources.
`python -m tests fuzz` compares random models with PyTorch. Each command tells its options with --help.
"""

from __future__ import annotations

import argparse
import importlib
import sys

COMMANDS = {
    "faults": "tests.faults.command",
    "fuzz": "tests.learning.fuzz_command",
    "mutants": "tests.mutants.command",
    "vopr": "tests.vopr.command",
}


def main(arguments: list[str]) -> int:
    """Run the command that the first word names, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("what", choices=COMMANDS)
    what = parser.parse_args(arguments[:1]).what
    return int(importlib.import_module(COMMANDS[what]).main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests fuzz`: random models against torch in float64, as many as asked for.

tests/learning describes a random model. A failure prints the seed of the model and the command that runs it alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEST = "tests/learning/test_fuzz.py"


def main(arguments: list[str]) -> int:
    """Return pytest's exit status, which is 0 if every model ended where it should."""
    parser = argparse.ArgumentParser(prog="python -m tests fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=300, metavar="N", help="how many; default: 300, as in the tests")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first; the others follow")
    options = parser.parse_args(arguments)
    if options.graphs < 1 or options.seed < 0:
        parser.error(f"--graphs {options.graphs} --seed {options.seed}; expected at least 1 graph, and a seed from 0")
    chosen = {"EDGEFL_FUZZ_GRAPHS": str(options.graphs), "EDGEFL_FUZZ_SEED": str(options.seed)}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", TEST]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **chosen}).returncode

"""`edgefl` with the methods of seams.py among its own: for tests that serve them to devices in other processes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from edgefl.cli import cli
from edgefl.methods import METHODS
from tests.seams import SEAMS

if __name__ == "__main__":
    METHODS.update(SEAMS)
    sys.exit(cli.main())

"""python -m tests.faults.inside NAMESPACE COMMAND ...: an edgefl command in a network namespace (Linux, root)."""

from __future__ import annotations

import sys

from edgefl.cli.cli import main
from tests.faults.link import enter

if __name__ == "__main__":
    enter(sys.argv[1])
    sys.exit(main(sys.argv[2:]))

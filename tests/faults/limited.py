"""python -m tests.faults.limited FILES ...: edgefl in a process that may open no more than so many files."""

from __future__ import annotations

import resource
import sys

from edgefl.cli.cli import main

if __name__ == "__main__":
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    sys.exit(main(sys.argv[2:]))

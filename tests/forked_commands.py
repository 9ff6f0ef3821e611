"""`edgefl ...` run to its end in a process that is forked from one that has imported the command line.

`python -m edgefl` imports numpy and edgefl first, for .5 to 1 s of CPU. Tests of what a command imports, and of streams
that cannot be written, still start Python. So do the pages of docs/, and a test of tests/cli/test_cli.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.forked import ForkedCommand

LIMIT_S = 120.0


def run_edgefl(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command. If it takes longer than LIMIT_S, it is killed, and subprocess.TimeoutExpired is raised."""
    with ForkedCommand(arguments, cwd, env) as command:
        out, errors = command.communicate(LIMIT_S)
        return subprocess.CompletedProcess(list(arguments), command.wait(), out, errors)

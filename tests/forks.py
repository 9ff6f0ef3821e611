"""Processes that are killed while they run a script. They are forked from one that has imported the package already.

A process of its own for each script would import numpy and edgefl each time, for half a second.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.forked import CONTEXT, PRELOADED

CONTEXT.set_forkserver_preload([*PRELOADED, "tests.server.stored", "tests.study.simulation.test_simulate"])
LIMIT_S = 120.0


def run_script(script: str, output: Path) -> int:
    """Run a script in a process of its own, with what it prints in a file. Return its exit status: -9 after SIGKILL."""
    process = CONTEXT.Process(target=_execute, args=(script, str(output)))
    process.start()
    process.join(LIMIT_S)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"a script ran for more than {LIMIT_S:g} s:\n{script}")
    assert process.exitcode is not None
    return process.exitcode


def _execute(script: str, output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    exec(script, {"__name__": "__main__"})

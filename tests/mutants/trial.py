"""One run of some tests in a copy of the repository, and what it says about a mutant."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
NO_TESTS = 5  # pytest's exit status if it selects none


class Trial(NamedTuple):
    """The result of a run of tests with a mutant.

    killer   what failed: a test, a signal, or the time limit. It is None if every test passed
    seconds  that it took
    """

    killer: str | None
    seconds: float


def run(tree: Path, tests: str, variables: Mapping[str, str], limit_s: float) -> Trial:
    """Run these tests in that copy. Raises RuntimeError if there are no such tests."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [*PYTEST, *shlex.split(tests)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # also kills the servers and devices that tests start
        process.communicate()
        return Trial(f"no end in {limit_s:.0f} s", time.perf_counter() - started)
    return Trial(killer(process.returncode, output, tests), time.perf_counter() - started)


def killer(status: int, output: str, tests: str) -> str | None:
    """Return what killed the mutant, from pytest's exit status and output, or None.

    Raises RuntimeError if no test ran.
    """
    if status == 0:
        return None
    if status < 0:
        return signal.Signals(-status).name
    failed = [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if status == NO_TESTS or not failed:
        raise RuntimeError(f"pytest {tests} ended with {status}; expected tests that run:\n{output[-2000:]}")
    return failed[0].split(" - ")[0]

"""`edgefl ...` in processes that a fork server starts, so that a life does not cost a start of Python.

Such a process runs the command as a user's process does: it has the same words, exit code, log and signals.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.faults.cluster import ENVIRONMENT, LOOK_EVERY_S, Process

PRELOADED = ("edgefl.cli.cli", "edgefl.cli.serve", "edgefl.cli.client", "edgefl.kernels.native")

ONE_AT_A_TIME = threading.Lock()  # a start looks after all children, and an exit code can be read once


class Fork:
    """One life of a process. It has what Process uses of subprocess.Popen."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._process = _context().Process(target=_life, args=(list(arguments), log), daemon=True)
        with ONE_AT_A_TIME:
            self._process.start()
        self.pid = int(self._process.pid)

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        with ONE_AT_A_TIME:
            code = self._process.exitcode
        return None if code is None else int(code)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        """Wait for the end, and return the exit code. Raises subprocess.TimeoutExpired."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("edgefl", timeout)
            time.sleep(LOOK_EVERY_S)
        return code


class ForkedProcess(Process):
    """As Process, with a fork server. It takes no variables of its own."""

    def _launch(self, environment: Mapping[str, str] | None) -> Fork:
        assert not environment, "a fork has the variables of the fork server"
        return Fork(self.arguments, self.log)


def _context() -> Any:
    os.environ.update(ENVIRONMENT)  # the fork server reads them when it begins
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, __name__])
    return context


def _life(arguments: list[str], log: Path) -> None:
    """Run `edgefl` in this process, with its words in the log."""
    from edgefl.cli.cli import main

    with open(log, "ab") as out:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(out.fileno(), stream.fileno())
    sys.exit(main(arguments))

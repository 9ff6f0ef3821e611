"""`edgefl ...` in processes that a fork server starts, so that a life does not cost a start of Python.

Such a process runs the command as a user's process does: it has words, an exit code, signals, a directory and variables
of its own. PYTHONPATH is the only variable of Python's that it reads.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, TextIO

from bench.cluster import EDGEFL, ENVIRONMENT, LIMIT_S, LOOK_EVERY_S, Process

PRELOADED = (
    *(f"edgefl.cli.{name}" for name in ("cli", "serve", "client", "simulate", "agent", "partition", "doctor")),
    "edgefl.experiment.data.partition",
    __name__,
)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([*PRELOADED])
OUT, ERR = 1, 2

ONE_AT_A_TIME = threading.Lock()  # a start looks after all children, and an exit code can be read once


class ForkedCommand:
    """A command that runs. It has what the cases and tests use of subprocess.Popen."""

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        program: Sequence[str] = EDGEFL,
    ) -> None:
        """stdout, stderr  descriptors that take the place of the command's streams. Pipes do without them.

        program  EDGEFL, or the path of another program of Python's
        """
        ends = {number: _pipe(given) for number, given in ((OUT, stdout), (ERR, stderr))}
        streams = _Streams({number: write for number, (_, write) in ends.items()})
        where, variables = str(cwd or Path.cwd()), dict(os.environ if env is None else env)
        self._process = CONTEXT.Process(target=_run, args=(program, arguments, where, variables, streams))
        with ONE_AT_A_TIME:
            _run_fork_server()
            self._process.start()
        self.pid = int(self._process.pid or 0)
        self.stdout, self.stderr = (_opened(*ends[number]) for number in (OUT, ERR))

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        with ONE_AT_A_TIME:
            code = self._process.exitcode
        return None if code is None else int(code)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = LIMIT_S) -> int:
        """Wait for the end, and return the exit code. Raises subprocess.TimeoutExpired."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("edgefl", timeout)
            time.sleep(LOOK_EVERY_S)
        return code

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Return what is left to read of both pipes, once the command has ended. Raises subprocess.TimeoutExpired."""
        texts = {"out": "", "errors": ""}
        readers = [
            threading.Thread(target=lambda key=key, pipe=pipe: texts.update({key: pipe.read()}), daemon=True)
            for key, pipe in (("out", self.stdout), ("errors", self.stderr))
            if pipe is not None
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return texts["out"], texts["errors"]

    def __enter__(self) -> ForkedCommand:
        return self

    def __exit__(self, *error: object) -> None:
        """Kill the command if it still runs, and close the pipes."""
        self.kill()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()


class ForkedProcess(Process):
    """As Process, with a fork server."""

    def _launch(self, environment: Mapping[str, str] | None) -> ForkedCommand:
        everything = {**os.environ, **ENVIRONMENT, **(environment or {})}
        with open(self.log, "ab") as log:
            return ForkedCommand(self.arguments, None, everything, log.fileno(), log.fileno(), self._program)


class _Streams:
    """Descriptors on their way into the fork server, by what they are to be there."""

    def __init__(self, descriptors: Mapping[int, int]) -> None:
        self._descriptors = descriptors

    def __getstate__(self) -> dict[int, Any]:
        return {number: DupFd(descriptor) for number, descriptor in self._descriptors.items()}

    def __setstate__(self, state: dict[int, Any]) -> None:
        self._descriptors = {number: handle.detach() for number, handle in state.items()}

    def put_in_place(self) -> None:
        """Make them this process's stdout and stderr, buffered as Python buffers a pipe."""
        for number, descriptor in self._descriptors.items():
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdout, sys.stderr = _text(OUT, line_buffering=False), _text(ERR, line_buffering=True)


def _run_fork_server() -> None:
    """Start the fork server if it does not run. It has one thread of OpenBLAS, so that a fork has no thread to end."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = ENVIRONMENT[name]
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _pipe(given: int | None) -> tuple[int | None, int]:
    """Return the ends of a pipe, or no end to read and the descriptor that was given."""
    return os.pipe() if given is None else (None, given)


def _opened(read: int | None, write: int) -> TextIO | None:
    """Return the file to read, once the other end is with the command."""
    if read is None:
        return None
    os.close(write)
    return open(read, encoding="utf-8")


def _text(number: int, line_buffering: bool) -> TextIO:
    return io.TextIOWrapper(open(number, "wb", closefd=False), "utf-8", "backslashreplace", None, line_buffering)


def _run(
    program: Sequence[str], arguments: Sequence[str], folder: str, variables: dict[str, str], streams: _Streams
) -> None:
    """Run the program in this process, as `python PROGRAM` does."""
    streams.put_in_place()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    paths = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [folder, *paths, *(path for path in sys.path if path not in paths)]
    sys.argv[:] = [program[-1], *arguments]
    if program == EDGEFL:
        runpy.run_module("edgefl", run_name="__main__")
    else:
        runpy.run_path(program[0], run_name="__main__")

"""Processes that a bench starts and looks at. Linux: memory and processor time are read from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Process:
    """A process that runs. What it prints goes to its log."""

    name: str
    handle: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raise RuntimeError with its last words if it has failed."""
        if self.handle.poll():
            raise RuntimeError(f"{self.name} ended with exit code {self.handle.returncode}: {self.words()[-500:]}")

    def words(self) -> str:
        return self.log.read_text(errors="replace")

    def memory(self, field: str) -> int:
        """Return bytes of resident memory: VmRSS is now, VmHWM is the largest. Return 0 once the process has ended."""
        lines = Path(f"/proc/{self.handle.pid}/status").read_text().splitlines()
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))

    def cpu_s(self) -> float:
        """Return the processor time so far, in seconds."""
        return cpu_s(self.handle.pid)


Start = Callable[[str, Sequence[str]], Process]


@contextmanager
def processes(logs: Path) -> Iterator[Start]:
    """Yield a function that starts a command under a name. Processes that still run at the end are stopped."""
    started: list[Process] = []
    environment = {**os.environ, "EDGEFL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def start(name: str, command: Sequence[str]) -> Process:
        log = logs / f"{name}.log"
        with log.open("wb") as output:
            handle = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=logs)
        started.append(Process(name, handle, log))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            if each.handle.poll() is None:
                each.handle.terminate()
        for each in started:
            each.handle.wait()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far, in seconds, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def python(*arguments: str) -> list[str]:
    """Return a command of this interpreter."""
    return [sys.executable, *arguments]


def wait_until(happened: Callable[[], bool], alive: Sequence[Process], within_s: float) -> None:
    """Wait until something has happened. Raises RuntimeError if a process fails before, or TimeoutError."""
    until = time.monotonic() + within_s
    while not happened():
        for each in alive:
            each.check()
        if time.monotonic() > until:
            raise TimeoutError(f"{', '.join(each.name for each in alive[:3])}: not there after {within_s:g} s")
        time.sleep(LOOK_EVERY_S)

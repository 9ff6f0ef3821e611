"""Processes that get a share of a processor: by a cgroup's quota, or else stopped and let go on in turns.

It moves and stops only processes that it is given.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
PERIOD_S = 0.025  # a quota may not be below a millisecond, so shares below a 25th get a longer period
LEAST_QUOTA_S = 0.001


class Throttle(Protocol):
    """A throttle of processes. `how` says what holds processes back, for people."""

    how: str

    def hold(self, pid: int, share: float) -> None:
        """Give the process, with all its threads, at most this share of a processor from now on."""


@contextmanager
def throttle() -> Iterator[Throttle]:
    """Yield the best throttle of this machine. At the end nothing is held back, and the processes must have ended."""
    for kind in (Quotas1, Quotas2):
        found: Quotas1 | Quotas2 = kind()
        try:
            found.probe()
        except OSError:
            continue
        try:
            yield found
        finally:
            found.end()
        return
    turns = Turns()
    try:
        yield turns
    finally:
        turns.end()


class Quotas1:
    """Quotas of cgroups, version 1: a group for each process."""

    root, limit = V1, "cpu.cfs_quota_us"
    how = "cgroup v1, cpu.cfs_quota_us"

    def __init__(self) -> None:
        self._groups: list[Path] = []

    def probe(self) -> None:
        """Raise OSError where such a group cannot be made or held back."""
        self._limit(self._made("probe"), 0.5)

    def hold(self, pid: int, share: float) -> None:
        group = self._made(str(pid))
        self._limit(group, share)
        (group / "cgroup.procs").write_text(str(pid))

    def end(self) -> None:
        """Remove the groups, which are empty once their processes have ended."""
        for group in self._groups:
            with suppress(OSError):
                group.rmdir()

    def _made(self, name: str) -> Path:
        if not (self.root / "cgroup.procs").exists():
            raise FileNotFoundError(f"{self.root}: no control group")
        group = self.root / f"edgefl-bench-{os.getpid()}-{name}"
        group.mkdir()
        self._groups.append(group)
        if not (group / self.limit).exists():
            group.rmdir()
            raise FileNotFoundError(f"{group / self.limit}: no such control")
        return group

    def _limit(self, group: Path, share: float) -> None:
        period_s = _period_s(share)
        (group / "cpu.cfs_period_us").write_text(str(round(period_s * 1e6)))
        (group / self.limit).write_text(str(round(share * period_s * 1e6)))


class Quotas2(Quotas1):
    """Quotas of cgroups, version 2."""

    root, limit = V2, "cpu.max"
    how = "cgroup v2, cpu.max"

    def _limit(self, group: Path, share: float) -> None:
        period_s = _period_s(share)
        (group / self.limit).write_text(f"{round(share * period_s * 1e6)} {round(period_s * 1e6)}")


class Turns:
    """SIGSTOP and SIGCONT in turns, by a thread for each process. What counts is when it may run, not what it uses."""

    how = "SIGSTOP and SIGCONT in turns"

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []

    def hold(self, pid: int, share: float) -> None:
        thread = threading.Thread(target=self._take_turns, args=(pid, share), daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _take_turns(self, pid: int, share: float) -> None:
        period_s = _period_s(share)
        with suppress(ProcessLookupError):
            while not self._is_over.is_set():
                os.kill(pid, signal.SIGCONT)
                self._is_over.wait(share * period_s)
                os.kill(pid, signal.SIGSTOP)
                self._is_over.wait((1 - share) * period_s)
            os.kill(pid, signal.SIGCONT)


def _period_s(share: float) -> float:
    return max(PERIOD_S, LEAST_QUOTA_S / share)

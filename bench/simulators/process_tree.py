"""A process with all that it has started: its members and their memory. Linux, from /proc."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.processes import ROOT

LOOK_EVERY_S = 0.1


def members(pid: int) -> Iterator[int]:
    """Yield the process and its descendants that run now."""
    yield pid
    for thread in _entries(Path(f"/proc/{pid}/task")):
        for child in _text(thread / "children").split():
            yield from members(int(child))


def pss_mb(pid: int) -> float:
    """Return the memory of the tree in megabytes. A page that several processes share counts once in all (PSS)."""
    kilobytes = 0
    for each in members(pid):
        lines = _text(Path(f"/proc/{each}/smaps_rollup")).splitlines()
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 1024 * kilobytes / 1e6


def run_watched(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, float]:
    """Run a command to its end. Return the last line of its output and the largest memory of its tree in megabytes.

    Raises RuntimeError with the command's last words if it fails.
    """
    peak, ended = 0.0, threading.Event()
    with tempfile.TemporaryFile("w+") as words, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=words, stderr=errors)
        watcher = threading.Thread(target=lambda: (process.wait(), ended.set()))
        watcher.start()
        while not ended.wait(LOOK_EVERY_S):
            peak = max(peak, pss_mb(process.pid))
        watcher.join()
        words.seek(0), errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: {errors.read()[-1000:]}")
        return words.read().splitlines()[-1], peak


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

"""PFLlib as a process: its own command line in its own Python, and its printed numbers.

These are facts about its program (TsingZ0/PFLlib, commit d832e76). Round i trains after the models of i rounds were
sent and evaluated. So R rounds are the evaluation numbered R, and one more round is trained. An accuracy is all hits
over all test samples. Ditto evaluates its global models and then its personal ones. Every start begins with one model
(`torch.manual_seed(0)`). Starts differ by the order of the clients, which numpy draws unseeded, and so by every
client's batches.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.processes import cpu_s

LOOK_EVERY_S = 0.5
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "EDGEFL_NUM_THREADS": "1"}
KINDS = {"Evaluate global": "global", "Evaluate personalized": "personal"}
ACCURACY = re.compile(r"^Averaged Test Accuracy: ([\d.]+)$")
ROUND = re.compile(r"^-+Round number: (\d+)-+$")
SECONDS = re.compile(r"^-+ time cost -+ ([\d.]+)$")


@dataclass(frozen=True)
class Process:
    """A process that has ended: what it printed, wall and processor seconds, and its largest memory in bytes."""

    words: str
    wall_s: float
    cpu_s: float
    peak: int

    def spent(self) -> dict[str, float]:
        """Return the time and memory as part of a record."""
        return {"wall_s": self.wall_s, "cpu_s": self.cpu_s, "peak": self.peak}


def carry_out(command: Sequence[str], folder: Path, log: Path) -> Process:
    """Run a command on one thread to its end. Raises RuntimeError with its last words if it fails.

    log  file of what it prints
    """
    started, used, peak = time.perf_counter(), 0.0, 0
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environment | THREADS
        ) as running,
    ):
        while running.poll() is None:
            try:
                used, peak = cpu_s(running.pid), max(peak, _most(running.pid))
                running.wait(LOOK_EVERY_S)
            except (subprocess.TimeoutExpired, FileNotFoundError):
                continue
    words = log.read_text(errors="replace")
    if running.returncode:
        raise RuntimeError(f"{command[0]} ended with exit code {running.returncode}: {words[-500:]}")
    return Process(words, time.perf_counter() - started, used, peak)


def arguments(dataset: str, method: str, rounds: int, every: int, goal: str, options: Sequence[str]) -> list[str]:
    """Return the arguments of PFLlib's main.py. `goal` names the file of its results.

    All other options have their defaults: SGD without decay, and all clients in every round.
    """
    sizes = ["-lbs", "10", "-lr", "0.005", "-ls", "1", "-nc", "20", "-gr", str(rounds), "-eg", str(every)]
    return ["-dev", "cpu", "-data", dataset, "-m", "CNN", "-algo", method, *sizes, "-go", goal, *options]


def read(words: str) -> dict[str, Any]:
    """Return the accuracies by kind and number of rounds, and the median seconds of a round without an evaluation."""
    found: dict[str, list[tuple[int, float]]] = {}
    spent: list[float] = []
    round, kind, evaluated = 0, "", False
    for line in words.splitlines():
        if match := ROUND.match(line):
            round, evaluated = int(match[1]), True
        elif begun := next((kind for text, kind in KINDS.items() if line.startswith(text)), None):
            kind = begun
        elif match := ACCURACY.match(line):
            found.setdefault(kind, []).append((round, float(match[1])))
        elif match := SECONDS.match(line):
            spent += [] if evaluated else [float(match[1])]
            evaluated = False
    return {"accuracy": found, "round_s": median(spent) if spent else None}


def _most(pid: int) -> int:
    """Return the largest resident memory of a process so far, in bytes, or 0 once it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

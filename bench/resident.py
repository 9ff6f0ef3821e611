"""A device's process: resident memory idle and in training, and the time from its start to its enrolment."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.fleet import Fleet, fleet
from bench.processes import ROOT, Process, cpu_s, wait_until

MB = 1e6
ENROLLED = b"connected as client"
WORD_S = 20.0
TRAINING_S = 300.0


def measure(path: Path, starts: int, rounds: int) -> Iterator[Figure]:
    """Yield the figures. The project set the upper limits: 0.5 s, 50 MB and 75 MB."""
    with fleet(path / "idle", "small", starts + 2, 1) as running:  # the run never begins: not all enrol
        times = [_start(running, client) for client in range(starts)]
        seconds, processor_s = ([each[i] for each in times] for i in (0, 1))
        note = f"median of {starts}, fastest {min(seconds):.2f}; {median(processor_s):.2f} s of processor time"
        yield Figure("start of a device's process to enrolled", median(seconds), "s", 0.5, note)
        idle = _memory_idle(running, starts)
        yield Figure("resident, device idle", idle / MB, "MB", 50, "VmRSS; about 1,000 parameters, enrolled")
    with fleet(path / "cifar", "cifar", 1, rounds, keep=(1.0,)) as running:
        device = running.device(0)
        peak = _peak([running.server, device], device)
        note = f"VmHWM, {rounds} rounds; the CIFAR CNN, B = 16, p = 1"
        yield Figure("resident, device training", peak / MB, "MB", 75, note)


def _start(running: Fleet, client: int) -> tuple[float, float]:
    """Return wall and processor seconds from the start of the process to its line that says it is connected."""
    environment = {**os.environ, "EDGEFL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    command = running.command("edgefl", "client", client=client)
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, cwd=running.path) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = time.perf_counter() - started, cpu_s(process.pid)
        process.terminate()
    if ENROLLED not in line:
        raise RuntimeError(f"device {client} said {line!r}; expected {ENROLLED!r}")
    return found


def _memory_idle(running: Fleet, client: int) -> int:
    device = running.device(client)
    state = running.path / f"d{client}"
    wait_until(
        lambda: ENROLLED.decode() in device.words() and any(state.glob("runs/*/model.bin")),
        [running.server, device],
        WORD_S,
    )
    return device.memory("VmRSS")


def _peak(everybody: list[Process], device: Process) -> int:
    """Return the most memory that the device holds until it ends, in bytes."""
    peak = 0

    def is_over() -> bool:
        nonlocal peak
        if device.handle.poll() is None:
            peak = max(peak, device.memory("VmHWM"))
        return device.handle.poll() is not None

    wait_until(is_over, everybody, TRAINING_S)
    device.check()
    return peak

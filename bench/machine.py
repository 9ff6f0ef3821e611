"""Facts about the machine and the builds on which a figure was measured, as plain values."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch

from bench import caps
from edgefl.kernels import native

Facts = dict[str, str | int | float]


def facts() -> Facts:
    """Return CPU, instruction sets, builds, versions, commit, date, and the load before (neighbours slow a
    measurement).
    """
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 0,
        "isa": native.isa(),
        "compiler": native.compiler(),
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        "torch_caps": caps.in_force(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "commit": _commit(),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "load": os.getloadavg()[0],
    }


def use_threads(threads: int) -> None:
    """Let both sides compute on that many threads."""
    torch.set_num_threads(threads)
    native.set_threads(threads)


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"

"""`python -m bench build`: the time to build the wheel from a clean checkout, and the size of what it has.

The committed files are copied into an empty folder and built there by pip, without CUDA kernels, on all processors that
this process may use. Packages that the build needs must be installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.figures import Figure, print_json, print_table
from bench.processes import ROOT

MB = 1e6


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench build", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each figure")
    options = parser.parse_args(arguments)
    facts = machine.facts()
    with tempfile.TemporaryDirectory() as folder:
        checkout, wheels = Path(folder) / "checkout", Path(folder) / "wheels"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
        times = build(checkout, wheels)
        (wheel,) = wheels.glob("*.whl")
        figures = [*times, *sizes(wheel)]
    (print_json if options.json else print_table)(facts, figures)
    return 0


def build(checkout: Path, wheels: Path) -> list[Figure]:
    """Build the wheel of a checkout into a folder. Raises RuntimeError with pip's last words if it fails."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", ".", "-w", str(wheels)]
    environment = {**os.environ, "EDGEFL_CUDA_TARGETS": "", "EDGEFL_CUDA_IMAGES": ""}
    before, begin_s = _spent_s(), time.perf_counter()
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    wall_s, processor_s = time.perf_counter() - begin_s, _spent_s() - before
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-1000:]}")
    jobs = f"{len(os.sched_getaffinity(0))} processors"
    return [
        Figure("build of the wheel: wall time", wall_s, "s", note=jobs),
        Figure("build of the wheel: processor time", processor_s, "s"),
    ]


def sizes(wheel: Path) -> list[Figure]:
    """Return the sizes of a wheel and of the native libraries in it."""
    with zipfile.ZipFile(wheel) as content:
        native = [each for each in content.infolist() if each.filename.endswith(".so")]
    found = [Figure(f"size of {Path(each.filename).name.split('.')[0]}", each.file_size / MB, "MB") for each in native]
    return [*found, Figure("size of the wheel", wheel.stat().st_size / MB, "MB")]


def _spent_s() -> float:
    """Return the processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

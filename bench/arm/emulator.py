"""Programs for aarch64 under qemu-user, with their instructions counted by counter.c. Nothing here is timed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ROOT

PLUGIN = Path(__file__).with_name("counter.c")
SCRIPT = ROOT / "scripts" / "arm.sh"
PYTHON = Path("root/usr/bin/python3.11")


class CannotCountError(RuntimeError):
    """Something that counting needs is missing, or a program failed. The message says it in a sentence."""


@dataclass(frozen=True)
class Emulator:
    """A runner of Python for aarch64 out of the folder that scripts/arm.sh prepares."""

    folder: Path
    cpu: str
    plugin: Path

    def counts(self, arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, list[int]]:
        """Return the last line that the program printed, and the instructions executed until each of its marks.

        Raises CannotCountError with the program's last words if it fails.
        """
        out = self.plugin.with_suffix(".counts")
        paths = ":".join(str(self.folder / name) for name in ("tree", "site", "peers"))
        command = [_qemu(), "-cpu", self.cpu, "-L", str(self.folder / "root"), "-plugin", f"{self.plugin},out={out}"]
        own = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "EDGEFL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        result = subprocess.run(
            [*command, str(self.folder / PYTHON), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **own, **environment},
        )
        if result.returncode:
            raise CannotCountError(_last_words(result))
        return result.stdout.splitlines()[-1], [int(line) for line in out.read_text().split()]


def emulator(folder: Path, cpu: str, scratch: Path) -> Emulator:
    """Return an emulator with the plugin compiled in `scratch`. Raises CannotCountError if something is missing."""
    _qemu()
    if not (folder / PYTHON).exists() or not (folder / "tree").exists():
        raise CannotCountError(f"no aarch64 Python in {folder}; expected what scripts/arm.sh prepare makes there")
    plugin = scratch / "counter.so"
    compiler = os.environ.get("CC", "cc")
    result = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(plugin), str(PLUGIN)], capture_output=True)
    if result.returncode:
        raise CannotCountError(f"{compiler} cannot compile {PLUGIN.name}: {result.stderr.decode()[-300:]}")
    return Emulator(folder, cpu, plugin)


def _qemu() -> str:
    """Return the path of qemu-aarch64. The builds of qemu-aarch64-static take no plugins."""
    found = shutil.which("qemu-aarch64")
    if not found:
        raise CannotCountError("no qemu-aarch64, which takes plugins; expected the package qemu-user")
    return found


def _last_words(result: subprocess.CompletedProcess[str]) -> str:
    words = result.stderr.strip().splitlines() or ["without a word"]
    return f"exit code {result.returncode}: {words[-1]}"

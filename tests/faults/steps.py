"""The steps of a process that outlive it, counted from outside by steps.c. No product code knows of it.

What a process does between two steps leaves no trace. So being killed after one step or before the next is the same,
except for what was sent: the peer may answer in between.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SOURCE = Path(__file__).with_name("steps.c")

Kind = Literal["killed before", "killed after", "stopped before", "disk full from"]
VARIABLES: dict[Kind, str] = {
    "killed before": "STEPS_KILL",
    "killed after": "STEPS_KILL_AFTER",
    "stopped before": "STEPS_STOP",
    "disk full from": "STEPS_FULL",
}


@dataclass(frozen=True)
class Fault:
    """A fault of a process.

    step    its number, from 0, or its line, for the first such step, or "LINE +N", for the N-th step after that one
    full_s  a full disk is freed after these seconds
    """

    kind: Kind
    step: int | str
    full_s: float = 0.0


def compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return shutil.which("cc")


class Steps:
    """The library that counts steps, built once into a directory. Raises RuntimeError if there is no C compiler."""

    def __init__(self, directory: Path) -> None:
        cc = compiler()
        if cc is None:
            raise RuntimeError("no program cc; expected a C compiler, which builds the counter of steps")
        self._library = directory / "steps.so"
        subprocess.run([cc, "-O1", "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl"], check=True)

    def environment(self, directory: Path, log: Path, fault: Fault | None = None) -> dict[str, str]:
        """Return variables for a process that changes files under `directory`. `log` gets a line per step, "write
        run.db".
        """
        places = {"LD_PRELOAD": str(self._library), "STEPS_DIR": os.path.realpath(directory), "STEPS_LOG": str(log)}
        if fault is None:
            return places
        return {**places, VARIABLES[fault.kind]: str(fault.step), "STEPS_FULL_S": str(fault.full_s)}


def read_log(log: Path) -> list[str]:
    """Return the steps that a process began, in order."""
    return log.read_text().splitlines() if log.exists() else []


def struck(steps: list[str], step: int | str) -> str:
    """Return the line of the step that a fault names. It is empty if the process did not come that far."""
    if isinstance(step, str):
        line, _, beyond = step.partition(" +")
        step = steps.index(line) + int(beyond or 0) if line in steps else len(steps)
    return steps[step] if step < len(steps) else ""

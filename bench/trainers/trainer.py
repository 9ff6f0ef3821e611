"""A trainer as the bench sees it: a process that trains when it is told to. turns.py is the side of the process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.processes import ROOT
from bench.trainers.task import BATCHES
from bench.trainers.turns import ANSWERS

ONE_THREAD = dict.fromkeys(("EDGEFL_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Trainer:
    """A process that trains, with its name and version.

    `cpu_s` is the processor time of all its steps, and `resident_bytes` its resident memory after the last ones.
    """

    def __init__(self, name: str, questions: IO[str], answers: IO[str], log: Path) -> None:
        self.name, self._questions, self._answers, self._log = name, questions, answers, log
        self.version = str(self._answer()["version"])
        self.cpu_s, self.resident_bytes, self._steps = 0.0, 0, 0

    def train(self, steps: int) -> float:
        """Take steps on the batches in turn. Return the loss of the last step, or the mean of the losses.

        Raises RuntimeError with the process's last words if it fails.
        """
        batches = [(self._steps + step) % BATCHES for step in range(steps)]
        print(json.dumps(batches), file=self._questions, flush=True)
        answer = self._answer()
        self._steps += steps
        self.cpu_s += float(answer["cpu_s"])
        self.resident_bytes = int(answer["resident_bytes"])
        return float(answer["loss"])

    def _answer(self) -> dict[str, float | str]:
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: {self._log.read_text(errors='replace')[-500:]}")
        return json.loads(line)


@contextmanager
def trainer(name: str, python: Path, module: str, folder: Path, *arguments: str) -> Iterator[Trainer]:
    """Run bench.trainers.MODULE on the task in `folder`, and end it on leaving."""
    log, (read, write) = folder / f"{name}.log", os.pipe()
    command = [str(python), "-m", f"bench.trainers.{module}", str(folder), *arguments]
    with log.open("w") as words, os.fdopen(write, "w"):
        process = subprocess.Popen(
            command,
            text=True,
            stdin=subprocess.PIPE,
            stdout=words,
            stderr=words,
            pass_fds=(write,),
            env={**environment(), ANSWERS: str(write)},
            cwd=folder,
        )
    with os.fdopen(read) as answers:
        try:
            assert process.stdin is not None
            yield Trainer(name, process.stdin, answers, log)
        finally:
            process.kill()
            process.communicate()


def environment() -> dict[str, str]:
    """Return the environment of a trainer's process: one thread, and this checkout to import from."""
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT)}


def prepare(python: Path, module: str, folder: Path) -> None:
    """Run bench.trainers.MODULE to its end. Raises RuntimeError with its last words if it fails."""
    command: Sequence[str] = [str(python), "-m", f"bench.trainers.{module}", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=folder)
    if result.returncode:
        raise RuntimeError(f"{module} ended with exit code {result.returncode}: {result.stderr[-500:]}")

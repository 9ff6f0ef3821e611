"""Instructions per training step: edgefl at p = 1 and .2, scalar and NEON, beside PyTorch and MNN on the same model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.arm.emulator import CannotCountError

FIRST, MORE = 1, 2
FROZEN = 0.2


class Run(NamedTuple):
    """The process of a trainer: its name, its module, its share p and its EDGEFL_ISA."""

    name: str
    trainer: str
    keep: float = 1.0
    isa: str = "neon"


NEON, SCALAR = Run("edgefl neon p=1", "edgefl"), Run("edgefl scalar p=1", "edgefl", isa="scalar")
NEON_FROZEN = Run("edgefl neon p=0.2", "edgefl", FROZEN)
SCALAR_FROZEN = Run("edgefl scalar p=0.2", "edgefl", FROZEN, "scalar")
TORCH, MNN = Run("torch", "torch"), Run("MNN", "mnn")
RUNS = (NEON, NEON_FROZEN, SCALAR, SCALAR_FROZEN, TORCH, MNN)


@dataclass(frozen=True)
class Count:
    """The instructions of a step, or its seconds on a real ARM machine. Both are None if the trainer does not run."""

    model: str
    batch: int
    run: str
    version: str = ""
    instructions: float | None = None
    step_s: float | None = None
    error: str = ""


Execute = Callable[[Sequence[str], dict[str, str]], tuple[str, list[int]]]


def count(execute: Execute, path: Path, batch: int, runs: Sequence[Run]) -> Iterator[Count]:
    """Yield the count of each run as it is ready. `path` is the model's file, whose name is the model's name."""
    for run in runs:
        arguments = ["-m", "bench.arm.workload", run.trainer, str(path), *map(str, (batch, run.keep, FIRST, MORE))]
        try:
            words, marks = execute(arguments, {"EDGEFL_ISA": run.isa})
        except CannotCountError as error:
            yield Count(path.stem, batch, run.name, error=str(error))
            continue
        said = json.loads(words)
        yield Count(path.stem, batch, run.name, said["version"], a_step(marks), None if marks else said["step_s"])


def a_step(marks: Sequence[int]) -> float | None:
    """Return the instructions of a step, or None without counts.

    The counts are taken before and after FIRST steps, and before and after FIRST + MORE steps. Raises CannotCountError
    if there are not four counts.
    """
    if not marks:
        return None
    if len(marks) != 4:
        raise CannotCountError(f"{len(marks)} counts; expected 4")
    return ((marks[3] - marks[2]) - (marks[1] - marks[0])) / MORE

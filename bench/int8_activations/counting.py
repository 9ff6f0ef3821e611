"""Instructions of an evaluation in each way on 64-bit ARM, counted under qemu. Nothing is timed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.arm.counting import FIRST, MORE, Execute, a_step
from bench.arm.emulator import CannotCountError, emulator

BATCHES = {"fedspu_cifar": 16, "fedspu_emnist": 16, "lenet5": 16, "resnet18": 1, "vgg11": 2}
CPU, PRODUCTS = "max", ("plain", "dotprod", "i8mm")


@dataclass(frozen=True)
class Counted:
    """Millions of instructions of an evaluation of a batch."""

    model: str
    batch: int
    way: str
    products: str
    millions: float


def measure(models: tuple[str, ...], folder: Path) -> Iterator[Counted]:
    """Yield the counts of each model. Raises CannotCountError if something is missing."""
    with tempfile.TemporaryDirectory(prefix="edgefl-arm-") as scratch:
        execute = emulator(folder, CPU, Path(scratch)).counts
        for model in models:
            yield from counted(execute, model, BATCHES[model])


def counted(execute: Execute, model: str, batch: int) -> Iterator[Counted]:
    """Yield the counts of a model. Raises CannotCountError without four counts for each."""
    numbers = [str(each) for each in (batch, FIRST, MORE)]
    arguments = ["-m", "bench.int8_activations.calls", model, *numbers, ",".join(PRODUCTS)]
    said, marks = execute(arguments, {"EDGEFL_ISA": "neon"})
    names = json.loads(said)
    if len(marks) != 4 * len(names):
        raise CannotCountError(f"{len(marks)} counts of {len(names)} evaluations; expected 4 for each")
    for at, (way, products) in enumerate(names):
        step = a_step(marks[4 * at : 4 * at + 4]) or 0.0
        yield Counted(model, batch, way, products, step / 1e6)

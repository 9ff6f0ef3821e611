"""The task that all simulators solve: FedAvg on Fashion-MNIST with equal parts of its training images.

Client k owns the images from k * images on. It tests on the last tenth of its images, and trains on the others. edgefl
draws the tenth by its seed. Pixels are x / 255. All sides train the same clients in a round, so that their accuracies
differ by the orders of samples and by this tenth alone. A side prints one line of JSON with its `Result`.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.processes import cpu_s
from bench.simulators.process_tree import members

BATCH, RATE, TESTED = 10, 0.05, 10
CLIENTS = "clients.npy"


@dataclass(frozen=True)
class Shape:
    """The shape of a federation: `clients` of `images` each, of whom `per_round` train in a round."""

    clients: int
    images: int
    per_round: int

    @property
    def tests(self) -> int:
        """Test samples of a client."""
        return max(1, self.images // TESTED)

    def trained(self, client: int) -> slice:
        """Return where the training samples of a client lie."""
        return slice(client * self.images, (client + 1) * self.images - self.tests)


SHAPES = {"few-large": Shape(100, 420, 10), "many-small": Shape(1_000, 42, 50)}
MODELS = ("mlp", "cnn")


@dataclass
class Result:
    """The result of one run of a side.

    cpu_ms    processor time in milliseconds of a client's part in a round, median over the rounds after the first
    accuracy  share of the test samples that the last global model classifies correctly
    peak_mb   largest memory of the process and those that it started (PSS), as the command sees it
    """

    cpu_ms: float
    accuracy: float
    peak_mb: float = 0.0


@dataclass
class Rounds:
    """The processor time of the process and those that it started, after each round."""

    shape: Shape
    marks: list[float] = field(default_factory=list)

    def ended(self) -> None:
        started = list(members(os.getpid()))[1:]
        self.marks.append(time.process_time() + sum(map(cpu_s, started)))

    def result(self, accuracy: float) -> Result:
        """Return the result, without the memory."""
        spent = [after - before for before, after in zip(self.marks, self.marks[1:], strict=False)]
        return Result(1e3 * statistics.median(spent) / self.shape.per_round, accuracy)


def peak_mb() -> float:
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1e6


def first_values(file: Path, model: str) -> list[np.ndarray]:
    """Return the parameters with which both sides begin, which lie beside the images, in the order of the layers."""
    with np.load(file.with_name(f"{model}.npz")) as content:
        return [content[name] for name in content.files]


def drawn(file: Path) -> list[list[int]]:
    """Return the clients of each round, which lie beside the images."""
    found: list[list[int]] = np.load(file.with_name(CLIENTS)).tolist()
    return found


def tell(result: Result) -> None:
    print(json.dumps(asdict(result)), flush=True)


class Asked(NamedTuple):
    """A side is asked for a simulation of this model on the images of a file.

    seed  seed of the orders of samples. The clients of the rounds follow from it, too
    """

    file: Path
    shape: Shape
    model: str
    rounds: int
    seed: int

    def arguments(self) -> list[str]:
        shape = self.shape
        given = (self.file, shape.clients, shape.images, shape.per_round, self.model, self.rounds, self.seed)
        return list(map(str, given))


def asked(arguments: Sequence[str]) -> Asked:
    """Return what a side is asked for by these arguments of its command."""
    file, clients, images, per_round, model, rounds, seed = arguments
    return Asked(Path(file), Shape(int(clients), int(images), int(per_round)), model, int(rounds), int(seed))

"""A served run on loopback: what a round costs beyond training, bytes, memory, start-up, and two hundred clients.

It has real processes and sockets. It needs Linux, because memory is read from /proc.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import crowd, flower, overhead, registered, resident, scale, traffic
from bench.figures import Figure

PARTS = ("overhead", "bytes", "memory", "crowd", "scale", "idle", "registered", "flower")
CLIENTS = 8
PARAMETERS = 985  # number of parameters of work.SMALL
FLOWER_S = 5.1  # seconds of a round of Flower 1.42 at 1,000 parameters, as the project measured it before


@dataclass(frozen=True)
class Effort:
    """The number of rounds and starts to measure, and of clients of the crowd."""

    rounds: int
    counted: int
    starts: int
    crowd: int
    crowd_rounds: int
    flower: int
    scale: scale.Effort
    registered: registered.Effort


FULL = Effort(
    rounds=60, counted=10, starts=7, crowd=200, crowd_rounds=5, flower=6, scale=scale.FULL, registered=registered.FULL
)
QUICK = Effort(
    rounds=5, counted=2, starts=2, crowd=16, crowd_rounds=1, flower=4, scale=scale.QUICK, registered=registered.QUICK
)


def measure(parts: Sequence[str], effort: Effort, folder: Path | None, peer: Path | None) -> Iterator[Figure]:
    """Yield the figures of the named parts.

    folder  where runs and devices keep their files. None: where temporary files go
    peer    the Python that has Flower
    """
    works: dict[str, Any] = {
        "overhead": lambda path: overhead.measure(path, CLIENTS, effort.rounds),
        "bytes": lambda path: traffic.measure(path, CLIENTS, effort.counted),
        "memory": lambda path: resident.measure(path, effort.starts, effort.counted),
        "crowd": lambda path: crowd.measure(path, effort.crowd, effort.crowd_rounds),
        "scale": lambda path: scale.measure(path, effort.scale),
        "idle": lambda path: scale.idle(path, effort.scale),
        "registered": lambda path: registered.measure(path, effort.registered),
        "flower": lambda path: _flower(peer, effort),
    }
    for part in parts:
        with tempfile.TemporaryDirectory(dir=folder) as path:
            yield from works[part](Path(path) / part)


def _flower(peer: Path | None, effort: Effort) -> Iterator[Figure]:
    if peer is None:
        yield Figure("Flower's round", 1e3 * FLOWER_S, "ms", note=f"quoted for 1.42, not measured here: {flower.HOW}")
        return
    seconds = flower.rounds_s(peer, CLIENTS, effort.flower, PARAMETERS)
    note = f"Flower {flower.version(peer)}; median of {len(seconds)} rounds, {CLIENTS} SuperNodes"
    yield Figure("Flower's round", 1e3 * median(seconds), "ms", note=note)

"""Either side of a small run, struck at every step that outlives it, one step per run. Each run must end like simulate.

steps     the steps of an undisturbed run
killed    SIGKILL before the step, or right after a sending. The process is then started again
full      creating and writing fail with ENOSPC from the step on, for a while. A process that ends over it is started
          again
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from bench.cluster import Cluster, Process, write_partitions
from tests.faults.experiments import short_rounds
from tests.faults.outcome import Truth
from tests.faults.steps import Fault, Kind, Steps, read_log, struck

Side = Literal["server", "device"]

EXPERIMENT = short_rounds("fedspu-es", clients=3, per_round=2, rounds=3, eval_every=2)
STRUCK = 0  # the device that faults happen to
FULL_S = {"server": 1.5, "device": 0.5}  # longer than the first pause before writing again
REFUSABLE = ("open", "write")


@dataclass(frozen=True)
class Row:
    """One run with one fault, at the step of that number or line.

    what        the step at which it happened, or "" if the run had fewer steps, as it may when messages cross otherwise
    lives       of the process that was struck
    difference  from simulate, in words, or None if everything is bit-identical
    """

    side: Side
    kind: Kind
    step: int | str
    what: str
    lives: int
    seconds: float
    difference: str | None

    @property
    def key(self) -> tuple[str, str, int | str]:
        return self.side, self.kind, self.step


class Sweep:
    """A simulated truth and the devices' samples, for any number of runs. Files go under `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._truth = Truth.of(EXPERIMENT, directory / "simulated")
        self._steps = Steps(directory)
        write_partitions(directory / "shares", EXPERIMENT)

    def steps(self) -> dict[Side, list[str]]:
        """Return the steps of the server and of the device that will be struck. Raises RuntimeError if this run
        differs.
        """
        root = self._directory / "undisturbed"
        with self._cluster(root) as cluster:
            cluster.start_server(self._environment(cluster, root, "server", None))
            for client in range(EXPERIMENT.clients):
                cluster.start_device(client, self._environment(cluster, root, "device", None) if client == 0 else None)
            cluster.finish()
        if found := self._truth.difference(cluster):
            raise RuntimeError(f"differs without any fault: {found}")
        steps: dict[Side, list[str]] = {"server": [], "device": []}
        for side in steps:
            steps[side] = read_log(root / f"{side}.steps")
        shutil.rmtree(root)
        return steps

    def run(self, side: Side, kind: Kind, step: int | str) -> Row:
        """Carry out one run with one fault on one side."""
        fault = Fault(kind, step, FULL_S[side])
        root = Path(tempfile.mkdtemp(dir=self._directory))
        started = time.perf_counter()
        with self._cluster(root) as cluster:
            process = self._start(cluster, root, side, fault)
            cluster.finish(process if kind == "disk full from" else None)
        seconds = time.perf_counter() - started
        what = struck(read_log(root / f"{side}.steps"), step)
        difference = self._truth.difference(cluster)
        shutil.rmtree(root)
        return Row(side, kind, step, what, process.lives, round(seconds, 2), difference)

    def _start(self, cluster: Cluster, root: Path, side: Side, fault: Fault) -> Process:
        """Start all processes, and return the process that will be struck."""
        environment = self._environment(cluster, root, side, fault)
        if not cluster.start_server(environment if side == "server" else None, fault.kind == "disk full from"):
            cluster.start_server()
        for client in range(EXPERIMENT.clients):
            cluster.start_device(client, environment if (side, client) == ("device", STRUCK) else None)
        return cluster.server if side == "server" else cluster.devices[STRUCK]

    def _cluster(self, root: Path) -> Cluster:
        return Cluster(root, EXPERIMENT, self._directory / "shares")

    def _environment(self, cluster: Cluster, root: Path, side: Side, fault: Fault | None) -> dict[str, str]:
        watched = cluster.run if side == "server" else cluster.state_of(STRUCK)
        return self._steps.environment(watched, root / f"{side}.steps", fault)


def faults(steps: list[str], every_write: bool = False) -> Iterator[tuple[Kind, int]]:
    """Yield every fault that can happen at these steps.

    every_write  False: of writes to one file that follow each other only the first and one in the middle are struck,
                 so that a part of what belongs together is written, or nothing of it
    """
    number = 0
    for what, group in groupby(steps):
        length = len(list(group))
        kind = what.split()[0]
        of_group = {0, length // 2} if kind == "write" and not every_write else set(range(length))
        for at in sorted(of_group):
            yield "killed before", number + at
            if kind == "send":
                yield "killed after", number + at
        if kind in REFUSABLE:
            yield "disk full from", number
        number += length

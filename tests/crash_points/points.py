"""Crash points: what a loss of power may leave at a point of a recorded run, and how both sides go on from there.

All processes end at the point. Each machine has lost its power, or has not: then its files have everything. A case is
good if what was acknowledged before the point is still there, and if the run ends like its simulation, bit for bit.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.crash_points.acknowledged import Acknowledged
from tests.crash_points.disk import VARIANTS, Disk, Variant, write_files
from tests.crash_points.recording import DEVICES, MACHINES, Federation, Recording
from tests.forked import ForkedProcess

LIMIT_S = 60.0  # for one case, on a busy machine
NEAR = 60  # sequences of calls after a process was killed and started again, among which points are drawn


@dataclass(frozen=True)
class Point:
    """A loss of power after the event of that number. `variants` has by machine what is there of all that is not
    durable, and `seed` draws the random parts.
    """

    event: int
    variants: dict[str, Variant]
    seed: int


@dataclass(frozen=True)
class Row:
    """One case. `after` is the last event before the crash, and `undurable` counts the files that may have changed.

    lost        what had been acknowledged and is not there, in words, or None
    difference  why the run did not end like its simulation, in words, or None
    """

    way: str
    event: int
    after: str
    variants: dict[str, Variant]
    undurable: int
    seconds: float
    lost: str | None
    difference: str | None

    @property
    def is_good(self) -> bool:
        return self.lost is None and self.difference is None


def points(recording: Recording, count: int, draw: random.Random) -> list[Point]:
    """Draw points, in the order of the record. Each sequence of equal calls on a file is as likely as the others."""
    groups, at = list[range](), recording.first
    for _, group in groupby(recording.events[at:], lambda event: (event.process, event.kind, event.name)):
        length = len(list(group))
        groups.append(range(at, at + length))
        at += length
    groups = groups[:NEAR] if recording.first else groups
    chosen = [draw.choice(group) for group in draw.sample(groups * -(-count // len(groups)), count)]
    return [Point(event, _variants(draw), draw.randrange(1 << 32)) for event in sorted(chosen)]


def _variants(draw: random.Random) -> dict[str, Variant]:
    """Draw what each machine has. At least one machine has lost something, if there was something to lose."""
    found = {machine: draw.choice(VARIANTS) for machine in MACHINES}
    found[draw.choice(MACHINES)] = draw.choice(("nothing", "torn"))
    return found


@dataclass(frozen=True)
class Crash:
    """The files after a loss of power, under `root`, and what had been acknowledged before."""

    way: str
    point: Point
    after: str
    undurable: int
    root: Path
    acknowledged: Acknowledged


def crashes(recording: Recording, wanted: list[Point], directory: Path) -> Iterator[Crash]:
    """Make the files of each point in turn. The points must be in the order of the record."""
    disks, done = recording.disks(), 0
    for number, point in enumerate(wanted):
        for event in recording.events[done : point.event + 1]:
            disks[recording.machines[event.process]].apply(event)
        done = point.event + 1
        root, seen = (directory / f"{number}-{what}" for what in ("left", "seen"))
        draw = random.Random(point.seed)
        for place in (root, seen):
            (place / DEVICES).mkdir(parents=True)
        for machine, disk in disks.items():
            write_files(seen, disk.left("all", draw, machine))
            write_files(root, disk.left(point.variants[machine], draw, machine))
        acknowledged = Acknowledged.of(seen)
        shutil.rmtree(seen)
        last = recording.events[point.event]
        words = f"{recording.machines[last.process]}: {last}"
        yield Crash(recording.way, point, words, _undurable(disks), root, acknowledged)


def _undurable(disks: dict[str, Disk]) -> int:
    return sum(name.startswith(machine) for machine, disk in disks.items() for name in disk.undurable())


def run(federation: Federation, crash: Crash) -> Row:
    """Start both sides from what a crash has left, and return how the run ended."""
    started = time.perf_counter()
    lost = crash.acknowledged.lost(crash.root)
    with federation.cluster(crash.root, crash.way, ForkedProcess) as cluster:
        try:
            cluster.start_server()
            for client in range(federation.truth.clients):
                cluster.start_device(client)
            cluster.finish(limit_s=LIMIT_S)
            difference = None
        except RuntimeError as error:
            difference = str(error)
    difference = difference or federation.truth.difference(cluster)
    if lost is None and difference is None:
        shutil.rmtree(crash.root)
    seconds = round(time.perf_counter() - started, 2)
    point = crash.point
    return Row(crash.way, point.event, crash.after, point.variants, crash.undurable, seconds, lost, difference)

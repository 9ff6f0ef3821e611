"""The part `crash-points` of `python -m tests faults`: which points are tried, and what is printed."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from tests.crash_points.points import Row, crashes, points, run
from tests.crash_points.recording import MACHINES, WAYS, Federation, Recording
from tests.faults.row_output import put_row

PER_KILL = 10  # points in one run with a kill
SYNCS_AT_END = 6  # of a process that ends: another run may have so many fewer
WAITING = 2  # crashes that are made before a process has room for them, for each job


def crash_points(root: Path, options: argparse.Namespace) -> bool:
    """Print every case that fails as it happens, then the counts. Return True if no case failed."""
    federation, rows = Federation(root), []
    ways = options.record or WAYS
    for number, way in enumerate(ways):
        count = len(range(number, options.points, len(ways)))
        for row in _rows(federation, way, count, options):
            rows.append(row)
            _tell(row, options)
            if options.first and not row.is_good:
                print(f"found at point {len(rows)}", flush=True)
                return False
    _print_counts(rows)
    return all(row.is_good for row in rows)


def _recordings(federation: Federation, way: str, count: int, draw: random.Random) -> Iterator[tuple[Recording, int]]:
    """Yield records with the number of points that each of them gets. A run with a kill gets few points."""
    if way != "killed":
        yield federation.record(way), count
        return
    whole = federation.record("plain")
    while count > 0:
        struck = draw.choice(MACHINES)
        yield federation.record(way, struck, draw.randrange(whole.syncs(struck) - SYNCS_AT_END)), min(count, PER_KILL)
        count -= PER_KILL


def _rows(federation: Federation, way: str, count: int, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the cases of one way, so that few crashes lie on the disk at a time."""
    draw, running = random.Random(f"{options.seed} {way}"), deque[Future[Row]]()
    with ThreadPoolExecutor(options.jobs) as pool:
        for recording, share in _recordings(federation, way, count, draw):
            record = recording.without_syncs(options.omit) if options.omit else recording
            directory = recording.base.with_name("points")
            for crash in crashes(record, points(record, share, draw), directory):
                running.append(pool.submit(run, federation, crash))
                if len(running) >= WAITING * options.jobs:
                    yield running.popleft().result()
        for each in running:
            yield each.result()


def _tell(row: Row, options: argparse.Namespace) -> None:
    put_row(row, options)
    if not row.is_good:
        words = "; ".join(found for found in (row.lost, row.difference) if found)
        print(f"{row.way} event {row.event}, {row.after}, {row.variants}: {words}", file=sys.stderr, flush=True)


def _print_counts(rows: list[Row]) -> None:
    """Print by way and by the kind of the last event: the points, the points with something to lose, the good ones."""

    def kind(row: Row) -> str:
        return f"{row.way}, after {row.after.split(': ')[1].split(' ')[0]}"

    for name, group in groupby(sorted(rows, key=kind), kind):
        found = Counter[str]()
        for row in group:
            found += Counter(points=1, volatile=int(row.undurable > 0), good=int(row.is_good))
        print(
            f"{name:24} {found['points']:4} points, {found['volatile']:4} with changes that are not durable,"
            f" {found['good']:4} end like the simulation"
        )
    good = sum(row.is_good for row in rows)
    print(f"{good} of {len(rows)} points end like the simulation, {sum(row.seconds for row in rows):.0f} s of runs")

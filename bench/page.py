"""python -m bench page: what a page costs the server whose run it shows.

One server has protocol speakers as devices (puppets.py), all of them in every round. `edgefl page` shows the run, and a
visitor reads its events and its metrics. Both are stopped for every second block of rounds (SIGSTOP), so that rounds
with and without a page come from one server within seconds of each other. The bench also prints what the server's own
part costs, which it pays with and without a page.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench import figures, machine
from bench.figures import Figure
from bench.processes import Process, processes, python, wait_until
from bench.scaled import WEIGHTS, Request, Weight, experiment
from edgefl.experiment.run_json import open_run
from edgefl.server.endpoint import read_endpoint
from edgefl.server.live_file import EVERY_S, write_live
from edgefl.server.live_state import LiveDevice, LiveState

START_S, LONGEST_S = 60.0, 1800.0
BAR = 1.02  # upper limit, relative to a round without the page
SETTLED = 2  # rounds at the beginning of a block that are not counted


@dataclass(frozen=True)
class PageEffort:
    """The effort: `devices` in every round, and `blocks` of `rounds` rounds, by turns without and with the page."""

    devices: int
    blocks: int
    rounds: int


FULL = PageEffort(1000, 8, 10)
QUICK = PageEffort(30, 4, 4)


def main(arguments: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench page", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then a line per figure")
    parser.add_argument("--quick", action="store_true", help="few devices and rounds: shows that it runs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "run", QUICK if options.quick else FULL)
        (figures.print_json if options.json else figures.print_table)(machine.facts(), found)
    return 0


def measure(path: Path, effort: PageEffort) -> Iterator[Figure]:
    """Yield the figures of one run."""
    with_page = _run(path, effort)
    weights = [Weight(**each) for each in json.loads((path / WEIGHTS).read_text())]
    rounds = [(later.round, later.time_s - one.time_s, later.cpu_s - one.cpu_s) for one, later in pairwise(weights)]
    shown = [each for each in rounds if with_page.get(each[0]) is True]
    plain = [each for each in rounds if with_page.get(each[0]) is False]
    how = f"{effort.devices:,} devices, all in a round"
    note = f"medians of {len(shown)} and {len(plain)} rounds, by turns in one run"
    for at, what in ((1, "wall time"), (2, "server's processor time")):
        off, on = median(each[at] for each in plain), median(each[at] for each in shown)
        yield Figure(f"{how}: a round without the page, {what}", off, "s")
        yield Figure(f"{how}: a round with the page, {what}, over that", on / off, "", BAR, note)
    took = _live(path, effort.devices)
    yield Figure(f"{how}: live.json, once in {EVERY_S:g} s at most", 1e3 * took, "ms", note="with and without a page")


def _run(path: Path, effort: PageEffort) -> dict[int, bool]:
    """Run it, and return for each round that counts whether the page was there."""
    path.mkdir(parents=True)
    total = effort.blocks * effort.rounds + SETTLED
    request = Request(str(path), effort.devices, effort.devices, total, 1)
    open_run(path, experiment(request).to_json())
    kind: dict[int, bool] = {}
    with processes(path) as start:
        server = start("server", python("-m", "bench.scaled", json.dumps(asdict(request))))
        wait_until(lambda: read_endpoint(path) is not None, [server], START_S)
        page = start("page", python("-m", "edgefl", "page", str(path)))
        wait_until(lambda: "page: http" in page.words(), [server, page], START_S)
        url = page.words().partition("page: ")[2].split()[0]
        visitor = start("visitor", python("-m", "bench.page_visitor", url))
        count = str(effort.devices)
        start("puppets", python("-m", "bench.puppets", str(read_endpoint(path)), count, count))
        try:
            _turns(path, effort, server, [visitor, page], kind)
        finally:
            for each in (visitor, page):
                with suppress(ProcessLookupError):
                    os.kill(each.handle.pid, signal.SIGCONT)
        wait_until(lambda: server.handle.poll() is not None, [server], LONGEST_S)
        server.check()
    return kind


def _turns(path: Path, effort: PageEffort, server: Process, shown: list[Process], kind: dict[int, bool]) -> None:
    """Stop and continue the page as rounds are closed."""
    for block in range(effort.blocks):
        is_shown = block % 2 == 1
        for each in shown:
            os.kill(each.handle.pid, signal.SIGCONT if is_shown else signal.SIGSTOP)
        first, end = _round(path) + 1, (block + 1) * effort.rounds

        def is_over(end: int = end) -> bool:
            return _round(path) >= end or server.handle.poll() is not None

        wait_until(is_over, [server, *shown], LONGEST_S)
        kind.update(dict.fromkeys(range(first + SETTLED, end + 1), is_shown))


def _round(path: Path) -> int:
    """Return the last round that the server has weighed, or 0."""
    try:
        return int(json.loads((path / WEIGHTS).read_text())[-1]["round"])
    except (OSError, ValueError):
        return 0


def _live(path: Path, devices: int) -> float:
    """Return the least seconds of several that it takes to make and write the live state of so many devices."""
    now = time.time()
    known = {client: LiveDevice(True, now, "training", f"127.0.0.1:{10_000 + client}") for client in range(devices)}
    state, times = LiveState(now, 1, "training", 1, now, now, "", known), []
    for _ in range(20):
        begun = time.perf_counter()
        write_live(path, state)
        times.append(time.perf_counter() - begun)
    return min(times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

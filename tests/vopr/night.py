"""A night's run: many schedules over thirteen methods, in several processes, with a record from which it goes on.

The record is a file of JSON lines. The first line has the settings and the commit, and each further line has the
outcome of one schedule. A run that is stopped and started again with its record leaves out what the record has.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from edgefl.methods import METHODS as IMPLEMENTATIONS
from edgefl.methods.rounds import asynchronous
from tests.vopr.case import Case
from tests.vopr.outcome import Outcome
from tests.vopr.simulation import simulated
from tests.vopr.tls import TRANSPORTS

METHODS = (
    "fedspu", "fedavg", "scaffold", "feddc", "fedspa", "fedrep", "fedselect", "ditto", "subsampling", "prunefl",
    "fedumf", "fedprox", "fedper",
)  # fmt: skip
TOLD_S = 60.0  # seconds between two lines about the time left
SCHEDULES = 100  # schedules that one process simulates before another process takes its place


class OtherRecordError(Exception):
    """The record of a night with other settings or of another commit."""


@dataclass(frozen=True)
class Night:
    """The schedules of a night: seeds from `first` on, each with the next method. A schedule of each method over one
    transport follows one over the other. With a buffer, two of four have asynchronous rounds where the method can.

    like    a case whose seed and method are replaced
    commit  the version of the code
    """

    like: Case
    first: int
    count: int
    commit: str

    def cases(self) -> Iterator[Case]:
        for seed in range(self.first, self.first + self.count):
            turn, place = divmod(seed, len(METHODS))
            transport, method = TRANSPORTS[turn % len(TRANSPORTS)], METHODS[place]
            is_buffered = turn // len(TRANSPORTS) % 2 == 1 and not asynchronous.problem(IMPLEMENTATIONS[method]())
            buffer = self.like.buffer if is_buffered else 0
            yield replace(self.like, seed=seed, method=method, transport=transport, buffer=buffer)

    @property
    def head(self) -> dict[str, Any]:
        """The first line of the record. The number of schedules may grow from one start to the next."""
        like = self.like
        head = {"commit": self.commit, "hours": like.hours, "devices": like.devices, "training": like.training}
        return {**head, "often": like.often, "buffer": like.buffer}


def run(night: Night, record: Path, jobs: int) -> Iterator[str]:
    """Simulate what the record lacks, and yield lines for people: failures, the time left, and the sums at the end.

    Raises  OtherRecordError if the record has other settings or another commit
    """
    done = read(record, night.head)
    missing = [case for case in night.cases() if case.seed not in done]
    begun, told = time.monotonic(), time.monotonic()
    with open(record, "a") as file:
        if not record.stat().st_size:
            _add(file, night.head)
        for number, outcome in enumerate(_outcomes(missing, jobs), 1):
            line = _record(outcome)
            _add(file, line)
            done[outcome.case.seed] = line
            if outcome.failure is not None:
                yield f"seed {outcome.case.seed}: BROKEN: {outcome.failure}; repeat it with: {outcome.case.command}"
            if time.monotonic() - told > TOLD_S:
                told = time.monotonic()
                left_s = (told - begun) / number * (len(missing) - number)
                yield f"{len(done)} of {night.count} schedules; {left_s / 3600:.1f} h left"
    chosen = [done[case.seed] for case in night.cases()]
    yield from summary(chosen)


def failures(record: Path) -> int:
    """Return the number of schedules in a record that broke a promise."""
    return sum(line["failure"] is not None for line in lines(record)[1:])


def read(record: Path, head: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the lines of a record by seed. Raises OtherRecordError if its first line is not `head`."""
    found = lines(record)
    if found and found[0] != head:
        raise OtherRecordError(f"{record} is the record of {found[0]}; expected {head}, or a new file")
    return {line["seed"]: line for line in found[1:]}


def lines(record: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a record. A process that was killed leaves its last line in part."""
    text = record.read_text() if record.exists() else ""
    whole, _, rest = text.rpartition("\n")
    if rest:
        record.write_text(f"{whole}\n" if whole else "")
    return [json.loads(line) for line in whole.splitlines()]


def _add(file: Any, line: dict[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()


def _outcomes(cases: list[Case], jobs: int) -> Iterator[Outcome]:
    """Yield the outcomes in the order in which they come. At most two schedules a process wait at a time."""
    if jobs == 1:
        yield from map(simulated, cases)
        return
    rest = iter(cases)
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=SCHEDULES) as pool:
        running: set[Future[Outcome]] = {pool.submit(simulated, case) for case in islice(rest, 2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(simulated, case) for case in islice(rest, len(done))}
            yield from (future.result() for future in done)


def _record(outcome: Outcome) -> dict[str, Any]:
    return {
        "seed": outcome.case.seed,
        "method": outcome.case.method,
        "transport": outcome.case.transport,
        "buffer": outcome.case.buffer,
        "failure": outcome.failure,
        "hours": round(outcome.hours, 2),
        "rounds": outcome.rounds,
        "faults": len(outcome.befallen),
        "crashes": outcome.crashes,
        **outcome.members,
        "cpu_s": round(outcome.cpu_s, 2),
        "digest": outcome.digest,
    }


def summary(outcomes: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each method, and one for all of them."""
    for method in (*METHODS, "all methods"):
        sums: Counter[str] = Counter()
        for line in outcomes:
            if method in (line["method"], "all methods"):
                sums.update({name: line[name] for name in ("hours", "rounds", "faults", "crashes", "cpu_s")})
                sums.update(schedules=1, failures=line["failure"] is not None)
        yield (
            f"{method}: {sums['schedules']} schedules, {sums['failures']} failures, {sums['hours']:.0f} h,"
            f" {sums['rounds']} rounds, {sums['faults']} faults, {sums['crashes']} crashes,"
            f" {sums['cpu_s']:.0f} s of CPU"
        )

"""What a piece of work took: joules, whose word that is, and seconds.

    with meter() as spent:
        work()
    spent.joules, spent.source, spent.seconds

The machine is measured, not this process: whatever else runs is in it, and of two meters at the same time each has all.
A thread reads in between, where a source has to be read more often than twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

from edgefl.learning.energy.energy_counters import EnergyAccumulator, EnergySource
from edgefl.learning.energy.source_detection import choose

Repeat = Callable[[Callable[[], object], float], AbstractContextManager[None]]  # calls it every so many seconds


class EnergyMeter:
    """Joules and seconds between entering and leaving it; used once.

    kind, source  of what told the joules: one word, and what exactly it is. None without a source
    seconds       0 before it is left
    joules        gross: all that the machine took. None where nothing told it
    net_joules    less what it takes idle; None where either is not known
    """

    def __init__(
        self,
        source: EnergySource | None,
        idle_watts: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        repeat: Repeat | None = None,
    ) -> None:
        self.kind = None if source is None else source.kind
        self.source = None if source is None else source.name
        self.joules: float | None = None
        self.seconds = 0.0
        self.idle_watts = idle_watts
        self._source, self._clock, self._repeat = source, clock, repeat or repeating
        self._accumulator: EnergyAccumulator | None = None
        self._reading: AbstractContextManager[None] | None = None
        self._began_s = 0.0

    @property
    def net_joules(self) -> float | None:
        if self.joules is None or self.idle_watts is None:
            return None
        return self.joules - self.idle_watts * self.seconds

    def __enter__(self) -> EnergyMeter:
        if self._source is not None:
            self._accumulator = self._source.accumulator()
        self._began_s = self._take()
        if self._source is not None:
            self._reading = self._repeat(self._take, self._source.every_s)
            self._reading.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._reading is not None:
            self._reading.__exit__(None, None, None)
        self.seconds = self._take() - self._began_s
        self.joules = None if self._accumulator is None else self._accumulator.joules

    def _take(self) -> float:
        now_s = self._clock()
        if self._accumulator is not None:
            self._accumulator.take(now_s)
        return now_s


def meter(
    root: Path | None = None,
    *,
    is_asked: bool = True,
    rails: Sequence[str] = (),
    idle_watts: float | None = None,
) -> EnergyMeter:
    """A meter by the best source that this machine has.

    root        the folder that stands for /
    is_asked    False: only by a source that costs two readings and is exact
    rails       labels of a power monitor's rails, in place of the best source
    idle_watts  of the machine with nothing to do, for `net_joules`
    Raises      RequestError for a rail that is not here.
    """
    return EnergyMeter(choose(root, is_asked, rails), idle_watts)


def unmeasured() -> EnergyMeter:
    """A meter without a source: seconds alone."""
    return EnergyMeter(None)


def idle_watts(
    source: EnergySource | None,
    seconds: float,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> float | None:
    """What the machine takes while this process waits so long; None if nothing tells it."""
    with EnergyMeter(source, clock=clock) as idle:
        wait(seconds)
    return None if idle.joules is None or not idle.seconds else idle.joules / idle.seconds


@contextmanager
def repeating(call: Callable[[], object], every_s: float) -> Iterator[None]:
    """Calls it in a thread of its own, until the block is left; never while or after that."""
    over = Event()

    def run() -> None:
        while not over.wait(every_s):
            call()

    thread = Thread(target=run, name="edgefl-energy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

"""The energy and the duration of a piece of work: joules, the source that reports them, and seconds.

    with meter() as spent:
        work()
    spent.joules, spent.source, spent.seconds

The meter measures the machine and not this process, so it includes whatever else runs. If two meters run at the same
time, each of them includes everything. Where a source has to be read more than twice, a thread reads it in between.
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

Repeat = Callable[[Callable[[], object], float], AbstractContextManager[None]]  # calls a function every so many seconds


class EnergyMeter:
    """Measure the joules and the seconds between entering and leaving a `with` block. A meter is used once.

    kind, source  kind of the source in one word, and its exact name. None without a source
    idle_watts    power of the machine without work, in watts. None: not known
    clock         function that gives the time in seconds
    repeat        function that samples a source every so many seconds. None: a thread of this process
    seconds       duration of the block. 0 before the block is left
    joules        energy of the whole machine. None without a source
    net_joules    `joules` less the idle energy. None if `joules` or the idle power is not known
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
        """The `joules` less the energy of the idle machine in the same time. It is None if one of the two
        is not known.
        """
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
    """Make a meter over the best source of energy readings that this machine has.

    root        folder that stands for /
    is_asked    False restricts the meter to sources that are exact and cost two readings
    rails       labels of the rails of a power monitor, which are then read instead of the best source
    idle_watts  power of the machine without work, in watts, for `net_joules`
    Raises      RequestError for a rail that this machine does not have
    """
    return EnergyMeter(choose(root, is_asked, rails), idle_watts)


def unmeasured() -> EnergyMeter:
    """Make a meter without a source, which measures seconds alone."""
    return EnergyMeter(None)


def idle_watts(
    source: EnergySource | None,
    seconds: float,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> float | None:
    """Measure the power in watts that the machine takes while this process waits. Return None without a source.

    source       source of the readings
    seconds      duration of the wait
    wait, clock  functions that wait for so many seconds and that give the time in seconds
    """
    with EnergyMeter(source, clock=clock) as idle:
        wait(seconds)
    return None if idle.joules is None or not idle.seconds else idle.joules / idle.seconds


@contextmanager
def repeating(call: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call `call` every `every_s` seconds in a thread of its own until the block is left, and never after that."""
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

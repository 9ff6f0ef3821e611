"""The conversion of readings into joules: counters that may wrap round, and power that is integrated.

Other modules find the files of the readings. An accumulator is given the time of each reading. It does not guess: after
one missing reading it has no joules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from edgefl.system.sysfs import number

MICRO = 1e-6
LONGEST_GAP_S = 1.0  # longest gap between two samples of power that may be bridged


class EnergyAccumulator(Protocol):
    """A sum of joules since the first reading."""

    def take(self, at_s: float) -> None:
        """Read the source at the time `at_s`, in seconds."""

    @property
    def joules(self) -> float | None:
        """The energy so far. It is None after a single or a missing reading, or where no counter has moved."""


class EnergySource(NamedTuple):
    """A source of energy readings.

    kind         one word, which metrics carry: "rapl", "hwmon", "iio" or "battery"
    name         exact name of the source, for reports
    every_s      seconds between two readings while the work runs
    is_cheap     whether two readings are exact, so that the source is used without being asked for
    accumulator  function that begins an accumulator
    """

    kind: str
    name: str
    every_s: float
    is_cheap: bool
    accumulator: Callable[[], EnergyAccumulator]


class EnergySourceProbe(NamedTuple):
    """The result of a search for one kind of source: the source, or the reason `why` there is no source."""

    kind: str
    source: EnergySource | None
    why: str = ""


@dataclass(frozen=True)
class Counter:
    """A file that counts microjoules and begins at 0 again after `range_uj`, which is None if the range is
    not known.
    """

    file: Path
    range_uj: int | None = None

    def grown(self, before: int, now: int) -> int | None:
        """Return the microjoules between two readings that are less than a range apart, or None if the readings
        contradict this.
        """
        if now >= before:
            return now - before
        if self.range_uj is None or before > self.range_uj:
            return None
        return now - before + self.range_uj


class CounterAccumulator:
    """An accumulator of the growth of all counters together."""

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters, self._last = counters, list[int]()
        self._uj, self._is_whole = 0, True

    def take(self, at_s: float) -> None:
        read = [number(counter.file) for counter in self._counters]
        values = [value for value in read if value is not None]
        if len(values) < len(read):
            self._is_whole = False
            return
        for counter, before, now in zip(self._counters, self._last, values):  # empty at the first reading
            grown = counter.grown(before, now)
            self._is_whole = self._is_whole and grown is not None
            self._uj += grown or 0
        self._last = values

    @property
    def joules(self) -> float | None:
        return MICRO * self._uj if self._is_whole and self._uj > 0 else None


class PowerIntegrator:
    """An accumulator of power over time, by trapezoids between samples."""

    def __init__(self, watts: Callable[[], float | None]) -> None:
        self._watts, self._joules, self._is_whole = watts, 0.0, True
        self._last: tuple[float, float] | None = None  # seconds, watts

    def take(self, at_s: float) -> None:
        now = self._watts()
        if now is None:
            self._is_whole = False
            return
        if self._last is not None:
            then_s, then = self._last
            self._is_whole = self._is_whole and at_s - then_s <= LONGEST_GAP_S
            self._joules += (at_s - then_s) * (then + now) / 2
        self._last = at_s, now

    @property
    def joules(self) -> float | None:
        return self._joules if self._is_whole and self._joules > 0 else None

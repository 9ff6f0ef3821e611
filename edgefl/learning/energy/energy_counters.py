"""The conversion of readings into joules: counters that may wrap round, and power that is integrated. The files of the
readings are found elsewhere.

An accumulator is given the time of each reading. What it cannot know it does not guess: one missing reading, and it has
no joules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from edgefl.system.sysfs import number

MICRO = 1e-6
LONGEST_GAP_S = 1.0  # between two samples of power: beyond it nobody knows what happened meanwhile


class EnergyAccumulator(Protocol):
    """Joules since the first reading."""

    def take(self, at_s: float) -> None:
        """Reads, at that time."""

    @property
    def joules(self) -> float | None:
        """None where it was read once, a reading was missing, or nothing has moved."""


class EnergySource(NamedTuple):
    """Something that tells of energy.

    kind      one word, which metrics carry: "rapl", "hwmon", "iio" or "battery"
    name      what exactly it is, for reports
    every_s   how often it has to be read between beginning and end
    is_cheap  whether so few readings of it are exact that it is on without being asked for
    accumulator     begins one
    """

    kind: str
    name: str
    every_s: float
    is_cheap: bool
    accumulator: Callable[[], EnergyAccumulator]


class EnergySourceProbe(NamedTuple):
    """Of one kind of source: it, or why there is none."""

    kind: str
    source: EnergySource | None
    why: str = ""


@dataclass(frozen=True)
class Counter:
    """A file that counts microjoules, and after `range_uj` begins at 0 again; None: nobody says when."""

    file: Path
    range_uj: int | None = None

    def grown(self, before: int, now: int) -> int | None:
        """Microjoules between two readings, which are less than a range apart; None if that cannot be."""
        if now >= before:
            return now - before
        if self.range_uj is None or before > self.range_uj:
            return None
        return now - before + self.range_uj


class CounterAccumulator:
    """The growth of all counters together."""

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters, self._last = counters, list[int]()
        self._uj, self._is_whole = 0, True

    def take(self, at_s: float) -> None:
        read = [number(counter.file) for counter in self._counters]
        values = [value for value in read if value is not None]
        if len(values) < len(read):
            self._is_whole = False
            return
        for counter, before, now in zip(self._counters, self._last, values):  # the first time there is no last one
            grown = counter.grown(before, now)
            self._is_whole = self._is_whole and grown is not None
            self._uj += grown or 0
        self._last = values

    @property
    def joules(self) -> float | None:
        return MICRO * self._uj if self._is_whole and self._uj > 0 else None


class PowerIntegrator:
    """Power over time, by trapezoids between samples."""

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

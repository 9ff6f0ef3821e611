"""The scale of a chart, from values to positions: ranges, round ticks, and units. No SVG is made here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # distances between two ticks, to be multiplied by a power of ten
STEEP = 30.0  # ratio of the largest to the smallest value from which an axis of positive numbers is logarithmic


@dataclass(frozen=True)
class AxisUnit:
    """A unit of an amount. `size` is its size in the unit of the values."""

    name: str
    size: float


BYTES = (AxisUnit("B", 1), AxisUnit("kB", 1e3), AxisUnit("MB", 1e6), AxisUnit("GB", 1e9), AxisUnit("TB", 1e12))
SECONDS = (AxisUnit("s", 1), AxisUnit("min", 60), AxisUnit("h", 3600), AxisUnit("d", 86400))
JOULES = (AxisUnit("J", 1), AxisUnit("kJ", 1e3), AxisUnit("MJ", 1e6))
COUNTS = (AxisUnit("", 1),)


def unit_for(most: float, units: Sequence[AxisUnit]) -> AxisUnit:
    """Return the largest unit of which there are at least two, or else the smallest unit."""
    return next((unit for unit in reversed(units) if most >= 2 * unit.size), units[0])


@dataclass(frozen=True)
class AxisScale:
    """An axis, which maps values to positions.

    low, high   values at the ends, low < high
    start, end  positions of the ends
    is_log      whether equal ratios have equal lengths
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value. A value beyond an end is put at the end."""
        low, high, found = self.low, self.high, min(max(value, self.low), self.high)
        if self.is_log:
            low, high, found = math.log10(low), math.log10(high), math.log10(found)
        return self.start + (found - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int, is_whole: bool = False) -> list[float]:
        """Return round values within the ends, at most `most` of them. `is_whole` allows whole numbers alone."""
        return self._log_ticks(most) if self.is_log else self._even_ticks(most, is_whole)

    def _even_ticks(self, most: int, is_whole: bool) -> list[float]:
        step = _step((self.high - self.low) / max(most - 1, 1))
        step = max(step, 1.0) if is_whole else step
        while is_whole and step != int(step):
            step = _step(step * 1.01)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        found = [k * step for k in range(first, last + 1)]
        return found if len(found) <= most else found[:: -(-len(found) // most)]

    def _log_ticks(self, most: int) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [k * 10.0**p for p in powers for k in factors if self.low <= k * 10.0**p <= self.high]
            if len(found) <= most:
                return found
        return found[:: -(-len(found) // most)]


def _step(least: float) -> float:
    """Return the smallest round step that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(step * power for step in STEPS if step * power >= least * (1 - 1e-9))


def fitted(
    values: Iterable[float],
    start: float,
    end: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
    may_be_log: bool = True,
) -> AxisScale:
    """Return a scale with a little room around the values, which are finite.

    limits      bounds beyond which there is no value
    may_be_log  whether the scale is logarithmic if all values are positive and far apart
    """
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    if may_be_log and low > 0 and high / low > STEEP:
        return AxisScale(low / 1.1, high * 1.1, start, end, is_log=True)
    room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = max(low - room, limits[0]), min(high + room, limits[1])
    return AxisScale(low, high if high > low else low + 1.0, start, end)


def tick_text(value: float) -> str:
    """Write a tick without needless digits."""
    return f"{0.0 if abs(value) < 1e-12 else value:.4g}"

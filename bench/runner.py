"""The one interleaved runner: contenders take turns in one process, so that a slow moment of the machine hits them all.

It knows nothing of kernels or torch. One thread is timed in CPU time, which a busy neighbour does not change and which
counts threads that spin. More threads are timed in wall time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import median, quantiles

Clock = Callable[[], float]
Contender = Callable[[int], object]  # repeats its work that many times


@dataclass(frozen=True)
class Effort:
    """The effort of a measurement: `rounds` turns per contender, each of at least `turn_s` seconds."""

    rounds: int
    turn_s: float


STEPS = Effort(rounds=15, turn_s=0.04)
PRODUCTS = Effort(rounds=15, turn_s=0.01)
QUICK = Effort(rounds=3, turn_s=0.002)
QUICK_STEPS = Effort(rounds=5, turn_s=0.01)  # a turn has several steps


@dataclass(frozen=True)
class Timing:
    """Seconds per repetition: the median of the turns and the quartiles around it."""

    median_s: float
    low_s: float
    high_s: float

    @staticmethod
    def of(turns_s: list[float]) -> Timing:
        """Return the timing of turns. Raises StatisticsError for fewer than two turns."""
        low, _, high = quantiles(turns_s, n=4, method="inclusive")
        return Timing(median(turns_s), low, high)

    @staticmethod
    def total(parts: Sequence[Timing]) -> Timing:
        """Return the timing of parts that run one after the other.

        The medians add up. The quartiles are added up, too, as a cautious estimate.
        """
        return Timing(*(sum(values) for values in zip(*map(astuple, parts), strict=True)))


def clock_for(threads: int) -> Clock:
    """Return the CPU time of the process for one thread, or the wall time for more."""
    return time.process_time if threads == 1 else time.perf_counter


def interleave(contenders: Mapping[str, Contender], effort: Effort, clock: Clock) -> dict[str, Timing]:
    """Time every contender. In each round each has one turn, and the order rotates from round to round.

    A contender is warmed up first, then repeated so often in a turn that the turn lasts `effort.turn_s`. Raises
    StatisticsError for fewer than two rounds.
    """
    repeats = {name: filling(run, effort.turn_s, clock) for name, run in contenders.items()}
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for start in range(effort.rounds):
        for at in range(len(names)):
            name = names[(start + at) % len(names)]
            begin = clock()
            contenders[name](repeats[name])
            turns[name].append((clock() - begin) / repeats[name])
    return {name: Timing.of(values) for name, values in turns.items()}


def filling(run: Contender, turn_s: float, clock: Clock) -> int:
    """Return the repetitions that fill a turn, from growing trials that warm up as well."""
    run(2)
    repeats = 1
    while True:
        begin = clock()
        run(repeats)
        spent_s = clock() - begin
        if spent_s >= turn_s / 4:
            return max(1, math.ceil(repeats * turn_s / spent_s))
        repeats *= 2 if spent_s > 0 else 4

"""The throughput of a device as it has measured itself: seconds of a client's round by counted work. Values and
arithmetic.

Not what a round's work comes to (budget.py), nor how a device measures (device/throughput_meter.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FORETOLD = "foretold_s"  # the setting of a plan that says how many seconds its training is foretold to take


class Workload(NamedTuple):
    """The work of one round: multiply-adds of the frozen part and of the steps, over all samples, and the number of
    steps.
    """

    still: float
    macs: float
    steps: int


class Throughput(NamedTuple):
    """Seconds of training, as what else the device does leaves it.

    still_s, mac_s   for a multiply-add of what stands still, and of steps
    step_s, round_s  for a step, and for a round, whatever their size
    memory           bytes that training may take; None: any number
    examples         for training
    """

    still_s: float
    mac_s: float
    step_s: float
    round_s: float
    memory: int | None = None
    examples: int = 0

    def seconds(self, work: Workload) -> float:
        """The predicted seconds of a round of this work."""
        return self.still_s * work.still + self.mac_s * work.macs + self.step_s * work.steps + self.round_s

    def slowed(self, times: float) -> Throughput:
        """So many times as slow."""
        parts = {name: times * getattr(self, name) for name in ("still_s", "mac_s", "step_s", "round_s")}
        return self._replace(**parts)


def fit(rounds: Sequence[tuple[Workload, float]]) -> Throughput:
    """The throughput that explains so many seconds of these rounds best, with the least sum of squared relative errors.

    No part of it is negative: one that would be is 0, and the others are found without it.
    Raises  ValueError without a round that took time.
    """
    timed = [(work, seconds) for work, seconds in rounds if seconds > 0]
    if not timed:
        raise ValueError(f"{len(rounds)} rounds, none of which took time; expected at least one that did")
    lines = np.array([[*work, 1.0] for work, _ in timed])
    seconds = np.array([each for _, each in timed])
    size = np.maximum(lines.max(axis=0), 1e-300)  # so that multiply-adds and steps are of one magnitude
    scaled, kept = lines / size / seconds[:, None], list(range(lines.shape[1]))
    while kept:
        found = np.linalg.lstsq(scaled[:, kept], np.ones(len(seconds)), rcond=None)[0]
        if (found >= 0).all():
            break
        del kept[int(found.argmin())]
    parts = np.zeros(lines.shape[1])
    parts[kept] = found / size[kept] if kept else 0.0
    still_s, mac_s, step_s, round_s = map(float, parts)
    return Throughput(still_s, mac_s, step_s, round_s)

"""The throughput of a device as it has measured itself: the seconds of a client's round by counted work.

budget.py counts the work of a round, and device/throughput_meter.py measures a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FORETOLD = "foretold_s"  # name of the setting of a plan with the predicted seconds of its training


class Workload(NamedTuple):
    """The work of one round, over all samples.

    still  multiply-adds of the frozen part
    macs   multiply-adds of the steps
    steps  number of steps
    """

    still: float
    macs: float
    steps: int


class Throughput(NamedTuple):
    """The seconds of training on a device, with its other work going on.

    still_s   seconds for a multiply-add of the frozen part
    mac_s     seconds for a multiply-add of steps
    step_s    seconds for a step, whatever its size
    round_s   seconds for a round, whatever its size
    memory    bytes that training may take. None: any number
    examples  number of training samples
    """

    still_s: float
    mac_s: float
    step_s: float
    round_s: float
    memory: int | None = None
    examples: int = 0

    def seconds(self, work: Workload) -> float:
        """Return the predicted seconds of a round of this work."""
        return self.still_s * work.still + self.mac_s * work.macs + self.step_s * work.steps + self.round_s

    def slowed(self, times: float) -> Throughput:
        """Return the throughput of a device that is `times` times as slow."""
        parts = {name: times * getattr(self, name) for name in ("still_s", "mac_s", "step_s", "round_s")}
        return self._replace(**parts)


def fit(rounds: Sequence[tuple[Workload, float]]) -> Throughput:
    """Return the throughput that explains the measured seconds of these rounds best.

    It has the least sum of squared relative errors. No part of it is negative: a part that would be negative is 0, and
    the other parts are found without it.

    Raises  ValueError without a round that took time
    """
    timed = [(work, seconds) for work, seconds in rounds if seconds > 0]
    if not timed:
        raise ValueError(f"{len(rounds)} rounds that took no time; expected at least one that took time")
    lines = np.array([[*work, 1.0] for work, _ in timed])
    seconds = np.array([each for _, each in timed])
    size = np.maximum(lines.max(axis=0), 1e-300)  # scales that bring multiply-adds and steps to one magnitude
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

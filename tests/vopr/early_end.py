"""A process that starts sometimes ends before it has done much: it is killed, or loses its power."""

from __future__ import annotations

import random

from tests.vopr import faults
from tests.vopr.device import DeviceProcess
from tests.vopr.process import Process


def arm_early(process: Process, stream: random.Random, share: float, is_unsynced: bool) -> None:
    """Let the process end early with this probability, and more often while the federation is young.

    is_unsynced  whether its last life ended between two steps of a write. This life is then likely to lose power
    """
    share *= faults.YOUNG if process.schedule.now < faults.YOUNG_S else 1.0
    if stream.random() < (faults.TWICE if is_unsynced else share):
        places = faults.EARLY_AT[1:2] if is_unsynced else faults.EARLY_AT
        at = stream.choice(faults.EARLY_AT_DEVICE if isinstance(process, DeviceProcess) else places)
        most = faults.EARLY_SEAMS_AT.get(at, 1)
        seams = stream.randrange(1, most + 1)
        process.arm(seams, is_unsynced or stream.random() < 0.5, at)

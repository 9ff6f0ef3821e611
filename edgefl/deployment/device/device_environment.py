"""The functions through which a device reaches the world, which a test can replace, and writing that waits for room on
the disk.
"""

from __future__ import annotations

import errno
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeVar

from edgefl.errors import RunError
from edgefl.learning.energy.meter import EnergyMeter, unmeasured
from edgefl.system.log_lines import LimitedLog

Written = TypeVar("Written")

FULL = (errno.ENOSPC, errno.EDQUOT)


class DeviceEnvironment(NamedTuple):
    """The functions through which a device reaches its user, clocks, random numbers and energy counters.

    say           shows one line to the user
    pause         waits after the n-th failure in a row, counted from 0
    clock         returns a time in seconds, of which only differences count
    within        returns a context that bounds the time of the work that its argument names. It raises TimeLimitError
                  when the time is over. By default the time is not bounded
    random_bytes  returns the number of random bytes that its argument says
    meter         makes a meter of the joules that a round's training takes. By default nothing is measured
    busy          returns the seconds that this process has spent on processors, of which only differences count
    log           shows few lines of a kind, for as long as the process lives. None: each device counts its own lines
    sleep         waits so many seconds, for which the server has sent the device away
    """

    say: Callable[[str], None]
    pause: Callable[[int], None]
    clock: Callable[[], float]
    within: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext()
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
    meter: Callable[[], EnergyMeter] = unmeasured
    busy: Callable[[], float] = time.process_time
    log: LimitedLog | None = None
    sleep: Callable[[float], None] = time.sleep

    def limited_log(self) -> LimitedLog:
        """Return the log for lines of which a server can cause many."""
        return self.log or LimitedLog(self.say, self.clock)


def durably(write: Callable[[], Written], path: Path, world: DeviceEnvironment) -> Written:
    """Call `write` again and again while the disk is full, and return its result. The data stay in memory until then.

    path    file or directory that is written to, for the message to the user
    Raises  RunError if it cannot be written for another reason.
    """
    attempt = 0
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in FULL:
                raise RunError(f"{path} cannot be written ({error})") from error
            if not attempt:
                world.say(f"{path}: {error.strerror}; trying again until there is room")
        world.pause(attempt)
        attempt += 1

"""A bound on the seconds of some work. The caller says what is bounded, and by how many seconds.

A signal interrupts the work between two lines of Python, and costs nothing until it comes. Kernels run in pieces of
milliseconds, but one huge step cannot be interrupted. If the work has not ended GRACE_S seconds after its time, the
process ends with a sentence. The files on the disk are then as they were before.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from edgefl.errors import RequestError, TimeLimitError

GRACE_S = 1.0
AGAIN_S = 0.1  # seconds until the signal comes again, if Python has dropped the error


class Alarm:
    """A context `with alarm(what):` that raises TimeLimitError after `seconds`, or ends the process.

    say   shows one line to the user
    end   ends the process
    It works in the main thread of a process alone, and alarms are not nested.
    Raises  RequestError if the system has no such clock.
    """

    def __init__(self, seconds: float, say: Callable[[str], None], end: Callable[[int], object] = os._exit) -> None:
        if not hasattr(signal, "setitimer"):
            raise RequestError(
                f"--max-seconds {seconds:g} on {os.name}; expected a POSIX system, which can interrupt a computation"
            )
        self._seconds, self._say, self._end = seconds, say, end

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        sentence = f"{what} takes longer than --max-seconds {self._seconds:g}; expected it to end within this time"

        def strike(number: int, frame: FrameType | None) -> None:
            raise TimeLimitError(sentence)

        def stuck() -> None:
            self._say(f"{sentence}, and a step of it cannot be interrupted: the device ends")
            self._end(1)

        watchdog = threading.Timer(self._seconds + GRACE_S, stuck)
        watchdog.daemon = True
        former = signal.signal(signal.SIGALRM, strike)
        watchdog.start()
        try:
            signal.setitimer(signal.ITIMER_REAL, self._seconds, AGAIN_S)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            watchdog.cancel()
            watchdog.join()
            signal.signal(signal.SIGALRM, former)

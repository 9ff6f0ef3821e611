"""Blocking code as a process of the schedule: a thread that runs only while the schedule waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.vopr.process import KilledError, Process


class Fiber:
    """One thread of a process. At any time either the schedule runs or one fiber, and never both.

    main  the code. An exception that it raises is given to `failed`
    """

    def __init__(self, process: Process, main: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._process, self._schedule, self._main, self._failed = process, process.schedule, main, failed
        self._turn, self._back = threading.Lock(), threading.Lock()  # each is released to hand the turn over
        self._turn.acquire()
        self._back.acquire()
        self._wait = 0  # number of the present wait
        self._is_waiting = self._is_over = self._was_woken = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Let the code begin."""
        self._schedule.after(0.0, self._resume, self._process)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until `wake` is called. Return False if the time is over before. Call it in the fiber."""
        self._wait += 1
        self._is_waiting, number = True, self._wait
        timeout = None
        if timeout_s is not None:
            timeout = self._schedule.after(timeout_s, lambda: self._end_wait(number, False), self._process)
        self._back.release()
        self._turn.acquire()
        if not self._process.is_alive:
            raise KilledError("while it waited")
        if timeout is not None and self._was_woken:
            self._schedule.drop(timeout)  # a device that sleeps connects often, and each connection has long timeouts
        return self._was_woken

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds. Call it in the fiber."""
        self.wait(seconds)

    def wake(self) -> None:
        """End the present wait."""
        number = self._wait
        self._schedule.after(0.0, lambda: self._end_wait(number, True), self._process)

    def end(self) -> None:
        """Unwind the code of a process that was killed."""
        while not self._is_over:
            self._resume()

    def _end_wait(self, number: int, is_woken: bool) -> None:
        if self._is_waiting and number == self._wait:
            self._was_woken = is_woken
            self._resume()

    def _resume(self) -> None:
        self._is_waiting = False
        self._turn.release()
        self._back.acquire()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if self._process.is_alive:
                self._main()
        except KilledError:
            pass
        except Exception as error:
            self._failed(error)
        self._is_over = True
        self._back.release()

"""The places where a process spends its time: functions are replaced by timed ones for the whole process."""

from __future__ import annotations

import functools
import json
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple


class Span(NamedTuple):
    """One call: when it began, how long it took, and how long its thread computed.

    Both durations are without the timed functions that it called. Times are from perf_counter, which on Linux all
    processes share.
    """

    label: str
    start_s: float
    own_s: float
    own_cpu_s: float


class Stopwatch:
    """A collector of one Span per call of the functions it times, in the order in which they end. Any thread may call
    them.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._called = threading.local()

    def time(self, owner: Any, name: str, label: str) -> None:
        """Replace the function `owner.name` by a timed one."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            outer, outer_cpu = getattr(self._called, "times", (0.0, 0.0))
            self._called.times = 0.0, 0.0
            start_s, start_cpu_s = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                spent_cpu_s, spent_s = time.thread_time() - start_cpu_s, time.perf_counter() - start_s
                inner, inner_cpu = self._called.times
                self.spans.append(Span(label, start_s, spent_s - inner, spent_cpu_s - inner_cpu))
                self._called.times = outer + spent_s, outer_cpu + spent_cpu_s

        setattr(owner, name, timed)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.spans))


def read(path: Path) -> list[Span]:
    """Return the spans that a process wrote."""
    return [Span(*each) for each in json.loads(path.read_text())]

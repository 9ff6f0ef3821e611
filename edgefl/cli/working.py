"""Lines on stderr about the work of a command: notes, and progress for every part that takes longer than two seconds.

On a terminal a line of progress counts the seconds and goes away when the part is done. In a file or a pipe it is a
plain line without control characters. --quiet hides all these lines. --verbose shows every part with its time.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgefl.cli.log_writer import LogFormat

if TYPE_CHECKING:
    from edgefl.study.progress_display import Display

AFTER_S = 2.0  # time in seconds after which a part shows that it goes on
TICK_S = 1.0  # time in seconds between two states of a line on a terminal
PLAIN_S = 10.0  # time in seconds between two plain lines of a part that counts


def is_quiet() -> bool:
    """Return whether --quiet was given."""
    return LogFormat.least == "WARNING"


def is_verbose() -> bool:
    """Return whether --verbose was given."""
    return LogFormat.least == "DEBUG"


def note(line: str) -> None:
    """Print a line about the work, unless --quiet was given."""
    if not is_quiet():
        print(line, file=sys.stderr, flush=True)


@contextmanager
def working(what: str, total: int = 0) -> Iterator[Callable[[int], None]]:
    """Show progress for the length of the with block if it takes long. Yields a function that takes what is done.

    what   the work, as "reading samples.csv"
    total  number of pieces of the work; 0 for work that is not counted
    """
    line = _Line(what, total)
    ended = threading.Event()
    ticker = threading.Thread(target=line.show_until, args=(ended,), name="progress", daemon=True)
    if not is_quiet():
        ticker.start()
    try:
        yield line.at
    finally:
        ended.set()
        if ticker.is_alive():
            ticker.join()
        if is_verbose():
            note(f"{what}: {line.seconds():.1f} s")


def run_display(in_all: int = 0) -> Display:
    """Return the display of a run's rounds, which shows nothing after --quiet. `in_all` is that of `watch`."""
    from edgefl.study import progress_display  # rich takes a while

    return progress_display.LogDisplay(lambda line: None) if is_quiet() else progress_display.watch(in_all=in_all)


class _Line:
    """One line of progress, which another thread writes while the work goes on."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._began = time.monotonic()

    def at(self, done: int) -> None:
        """Take the number of pieces that are done."""
        self._done = done

    def seconds(self) -> float:
        """Return the time since the work began."""
        return time.monotonic() - self._began

    def show_until(self, ended: threading.Event) -> None:
        """Write the line, again and again where it changes, until the work has ended."""
        is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        if ended.wait(AFTER_S):
            return
        width = 0
        while True:
            text = self._text(is_live)
            if is_live:
                text = text[: shutil.get_terminal_size().columns - 1]
                _write(f"\r{text:<{width}}")
                width = len(text)
            else:
                _write(f"{text}\n")
            if ended.wait(None if not (is_live or self._total) else TICK_S if is_live else PLAIN_S):
                break
        if is_live:
            _write(f"\r{'':<{width}}\r")

    def _text(self, is_live: bool) -> str:
        count = f": {self._done} of {self._total}" if self._total else ""
        return f"{self._what}{count} ..." + (f" {self.seconds():.0f} s" if is_live else "")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()

"""Standard input, output and error of a process that may lack them: a log that cannot be written loses lines, no more.

Not what is written (cli/log_writer.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

LOST = (OSError, ValueError)  # a full disk, a pipe or terminal that has gone; a stream that was closed


class LossyStream:
    """A text stream that drops what cannot be written. Everything else is as in the stream beneath."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text, or loses the text."""
        with suppress(*LOST):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes what was written, or loses it."""
        with suppress(*LOST):
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def lossy_error_stream() -> Iterator[None]:
    """Within it, no line on standard error can end the program."""
    open_standard_descriptors()
    before = sys.stderr
    sys.stderr = cast(TextIO, LossyStream(before))
    try:
        yield
    finally:
        sys.stderr = before


def open_standard_descriptors() -> None:
    """Opens /dev/null in place of descriptors 0, 1 and 2 that are closed.

    A file of a run would get such a number otherwise, and a line for people would land in the file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (for the life of the process)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def flush_output() -> None:
    """Flushes standard output. Raises OSError if results cannot be written."""
    try:
        sys.stdout.flush()
    except LOST as error:
        raise OSError(f"standard output or a file cannot be written ({getattr(error, 'strerror', error)})") from None


def abandon_output() -> None:
    """Flushes standard output; one that cannot be written becomes /dev/null, so that Python's end is quiet about it."""
    try:
        sys.stdout.flush()
        return
    except LOST:
        pass
    try:
        empty = os.open(os.devnull, os.O_WRONLY)
        os.dup2(empty, sys.stdout.fileno())
        os.close(empty)
    except LOST:
        pass

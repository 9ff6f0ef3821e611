"""Standard input, output and error of a process that may lack them. A log that cannot be written only loses lines.

cli/log_writer.py says what is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast

LOST = (OSError, ValueError)  # errors of a full disk, of a pipe or terminal that has gone, and of a closed stream


class LossyStream:
    """A text stream that drops text that cannot be written. It does everything else as the stream that it wraps."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, or drop it. Return the number of its characters in both cases."""
        with suppress(*LOST):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the text that was written, or drop it."""
        with suppress(*LOST):
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def lossy_error_stream() -> Iterator[None]:
    """Make standard error a stream that drops what it cannot write, so that no line there ends the program.

    The former stream is back at the end of the context.
    """
    open_standard_descriptors()
    before = sys.stderr
    sys.stderr = cast(TextIO, LossyStream(before))
    try:
        yield
    finally:
        sys.stderr = before


def open_standard_descriptors() -> None:
    """Open /dev/null in place of each of the descriptors 0, 1 and 2 that is closed.

    Otherwise a file of a run could get such a number, and a line for people would land in the file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one, and open takes it
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (for the life of the process)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def flush_output() -> None:
    """Flush standard output. Raises OSError if results cannot be written."""
    try:
        sys.stdout.flush()
    except LOST as error:
        raise OSError(f"standard output or a file cannot be written ({getattr(error, 'strerror', error)})") from None


def abandon_output() -> None:
    """Flush standard output. If that fails, replace it by /dev/null, so that Python ends without a further error."""
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

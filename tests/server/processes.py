"""Real processes of `edgefl` for tests: started, listened to line by line, and killed at the end of the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

EDGEFL = ("-m", "edgefl")


def start(stack: ExitStack, *arguments: str, program: Sequence[str] = EDGEFL) -> subprocess.Popen[str]:
    """Start `edgefl`, or another program of Python's, with these arguments. It is killed when the stack closes."""
    command = [sys.executable, *program, *arguments]
    process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    return process


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the lines of the process on stderr, as it writes them."""
    assert process.stderr is not None
    return iter(process.stderr.readline, "")


def until(found: Iterator[str], text: str) -> str:
    """The first line with this text. Raises AssertionError if the process ends before."""
    seen = []
    for line in found:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(f"no {text!r} in {seen}")

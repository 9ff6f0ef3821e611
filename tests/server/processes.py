"""Processes of `edgefl` for tests: started, listened to line by line, and killed at the end of the test.

They are forked from a process that has imported the command line (tests/forked.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bench.cluster import EDGEFL
from tests.forked import OUT, ForkedCommand


def start(stack: ExitStack, *arguments: str, program: Sequence[str] = EDGEFL) -> ForkedCommand:
    """Start `edgefl`, or another program of Python's, with these arguments. It is killed when the stack closes."""
    return stack.enter_context(ForkedCommand(arguments, stdout=OUT, program=program))


def lines(process: ForkedCommand) -> Iterator[str]:
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

"""Warnings of a command as lines such as `edgefl simulate: the warning`, without a file and its source line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warning_lines(command: str) -> Iterator[None]:
    """Show each UserWarning as one line. Warnings for programmers, of other categories, keep Python's form."""
    before = warnings.formatwarning

    def formatted(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if category is UserWarning:
            return f"edgefl {command}: {message}\n"
        return before(message, category, filename, lineno, line)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = before

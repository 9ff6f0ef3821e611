"""Lines of at most 120 columns: prototypes, calls and comments as clang-format would break them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

COLUMNS = 120


def called(head: str, arguments: Sequence[str], tail: str) -> str:
    """Return head(arguments)tail, with lines that are broken under the bracket."""
    indent = " " * (len(head) + 1)
    lines = textwrap.wrap(
        ", ".join(word.replace(" ", "\0") for word in arguments) + tail.replace(" ", "\0"),
        COLUMNS - len(indent) - 1, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return f"{head}({f'{chr(10)}{indent}'.join(lines) or tail}".replace("\0", " ")


def comment(text: str) -> str:
    """Return a comment of C. A line that begins with a blank stays a line."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        indent = " " * (len(paragraph) - len(paragraph.lstrip()))
        lines += textwrap.wrap(
            paragraph, COLUMNS - 3, initial_indent="", subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    if len(lines[-1]) > COLUMNS - 6 or (len(lines) == 1 and len(lines[0]) > COLUMNS - 6):
        return "/* " + "\n * ".join(lines) + "\n */"
    return "/* " + "\n * ".join(lines) + " */"

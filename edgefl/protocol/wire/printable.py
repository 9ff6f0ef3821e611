"""What a peer wrote, for a log or a terminal. Not what its messages mean."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything that could steer a terminal, or end a line, as an escape sequence."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)

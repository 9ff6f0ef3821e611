"""The text of a peer in a form that is safe for a log or a terminal. The module does not know what messages mean."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with each character that could steer a terminal, or end a line, as an escape sequence."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)

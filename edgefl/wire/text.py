"""What a peer has written, as it may be shown: on a terminal, in a log, in a table. Not its length (messages.py)."""

from __future__ import annotations


def shown(text: str) -> str:
    r"""The text with everything that is no character to look at as an escape: control characters, line ends, marks that
    turn the direction of writing, halves of pairs. "a\x1b[2Jb" gives r"a\x1b[2Jb".
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)

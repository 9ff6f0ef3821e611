"""Operators that make mutants of C++: one token of an expression becomes another.

An edit has the whole expression around the token, because a build has all mutants behind a switch (switch.py), which
chooses between two expressions. The compiler decides whether an edit is C++ (`compiling` of tree.py).
"""

from __future__ import annotations

import re

from tests.mutants.python_operators import Edit

SWAPPED = {
    "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",), "<": ("<=",), "<=": ("<",), ">": (">=",),
    ">=": (">",), "==": ("!=",), "!=": ("==",), "&&": ("||",), "||": ("&&",),
}  # fmt: skip
TOKEN = re.compile(r" (\+|-|\*|/|%|<=?|>=?|==|!=|&&|\|\|) ")
INDEX = re.compile(r"(?<=[\w\])])\[([^\[\]]+)\]")
ALONE = re.compile(r"^\s*(#|//|/?\*|template|using|static_assert|case|struct|enum)|constexpr|operator|sizeof|alignas")
OPEN, CLOSED = "([{", ")]}"
END = re.compile(r"[,;?]|:(?!:)(?<!::)")
START = re.compile(r"(?:^\s*|[,;?]\s*|(?<!:):\s+|(?<![=<>!+\-*/%&|^])=\s|[+\-*/%&|^]=\s|\breturn\s|&&\s|\|\|\s)$")


def edits(text: str) -> list[Edit]:
    """Return the edits of a file: an operator for another, and an index that is one more."""
    found: list[Edit] = []
    at = 0
    for line in text.splitlines(keepends=True):
        code = line.partition("//")[0]
        if not ALONE.search(line) and '"' not in line:
            found += [edit for edit in _of_line(code, at) if edit is not None]
        at += len(line.encode())
    return found


def _of_line(code: str, at: int) -> list[Edit | None]:
    found: list[Edit | None] = []
    for token in TOKEN.finditer(code):
        found += [_swapped(code, at, *token.span(1), other) for other in SWAPPED[token[1]]]
    for index in INDEX.finditer(code):
        start, end = index.span(1)
        found.append(_edit("index", code, at, start, end, f"{index[1]} + 1"))
    return found


def _swapped(code: str, at: int, start: int, end: int, other: str) -> Edit | None:
    """Return the edit of the expression around a token, or None if the line has not the whole of it."""
    logical = code[start:end] in ("&&", "||")
    first, last = _first(code, start, logical), _last(code, end, logical)
    if first is None or last is None:
        return None
    text = code[first:start] + other + code[end:last]
    return _edit("comparison" if code[start:end][0] in "<>=!" else "operator", code, at, first, last, text)


def _edit(operator: str, code: str, at: int, start: int, end: int, text: str) -> Edit:
    before = at + len(code[:start].encode())
    return Edit(operator, before, before + len(code[start:end].encode()), text)


def _first(code: str, start: int, logical: bool) -> int | None:
    """Return where the expression begins in which a token stands."""
    depth = 0
    for place in range(start - 1, -1, -1):
        if code[place] in CLOSED:
            depth += 1
        elif code[place] in OPEN:
            if depth == 0:
                return place + 1
            depth -= 1
        elif depth == 0 and (found := START.search(code[: place + 1])) and found.end() == place + 1:
            if logical and code[:place].rstrip().endswith(("&&", "||")):
                continue
            return place + 1 if code[: place + 1].strip() else None
    return None


def _last(code: str, end: int, logical: bool) -> int | None:
    """Return where the expression ends in which a token stands."""
    depth = 0
    for place in range(end, len(code)):
        if code[place] in OPEN:
            depth += 1
        elif code[place] in CLOSED:
            if depth == 0:
                return place
            depth -= 1
        elif depth == 0 and (END.match(code, place) or (not logical and code[place : place + 2] in ("&&", "||"))):
            return place - (code[place - 1] == " ")
    return None

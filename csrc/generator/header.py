"""edgefl.h: csrc/edgefl.h, whose lines /* @FAMILY */ become the prototypes of the family's operations."""

from __future__ import annotations

import re
from typing import Any

from .layout import called, comment
from .rows import HEADER, families, functions


def text() -> str:
    """Return the header as a C program includes it."""
    return re.sub(r"^/\* @(\w+) \*/\n", lambda found: prototypes(found[1]), HEADER.read_text("utf-8"), flags=re.M)


def prototypes(family: str) -> str:
    return "".join(declaration(row) for row in families()[family])


def declaration(row: Any) -> str:
    """Return the contract and the prototypes of an operation, or an empty text if it has no C function."""
    each = [
        called(f"efl_status efl_{function.symbol}", [f"{p.type} {p.name}" for p in function.parameters], ");")
        for function in functions(row)
    ]
    return "".join(f"{line}\n" for line in [comment(row.contract or f"{row.meaning}."), *each]) if each else ""

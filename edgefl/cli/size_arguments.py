"""The values of options for sizes and shapes: 24MB, 24MiB or 25165824 bytes, and 3,32,32 for the shape of an image."""

from __future__ import annotations

import argparse

UNITS = {
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "b": 1,
}  # fmt: skip


def size(text: str) -> int:
    """Return a number of bytes. Raises ArgumentTypeError for text that is not a size from 1 to 2**63 - 1 bytes."""
    unit = next((unit for unit in UNITS if text.lower().endswith(unit)), "")
    number = text[: len(text) - len(unit)].strip()
    try:
        found = float(number) * UNITS.get(unit, 1)
    except ValueError:
        found = 0.0
    if not 1 <= found < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a size such as 24MB (1e6 bytes), 24MiB (2**20) or bytes")
    return int(found)


def extents(text: str) -> tuple[int, ...]:
    """Return the shape of an example. Raises ArgumentTypeError for text that is not a shape."""
    parts = text.split(",")
    if len(parts) > 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}; expected C,H,W, or C,L, or the number of features")
    return tuple(map(int, parts))
